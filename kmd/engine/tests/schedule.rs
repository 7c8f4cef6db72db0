// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The scheduler with a simulated register window: order, groups, events, tables, failures.

use nvdla_engine::{Cause, Engine, Hardware, Progress, Slot, SubmitError, Task, WriteCounter};
use nvdla_tests::build::{address, table, Net, Shape};
use nvdla_tests::drive::{finish, Double};
use nvdla_tests::mock::{Access, Mock};
use nvdla_uapi::config::{Config, NV_FULL, NV_SMALL};
use nvdla_uapi::desc::{Activation, Event, OpType, SdpOperandMode, SdpSubUnit, Stat};
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{bdma, cdma, csc, glb, sdp, sdp_rdma, Block, Register};

const SMALL: Shape = Shape { config: &NV_SMALL, precision: Precision::Int8 };
const FULL: Shape = Shape { config: &NV_FULL, precision: Precision::Int8 };

fn parse(config: &'static Config, net: &Net) -> Task<Vec<Slot>> {
    net.task().parse(config).unwrap_or_else(|error| panic!("{error}"))
}

fn start(config: &'static Config, net: &Net) -> (Engine<Vec<Slot>>, Mock) {
    let (mut engine, mut mock) = (Engine::new(config), Mock::new(config));
    engine.submit(&mut mock, parse(config, net), 0, u64::MAX).unwrap();
    (engine, mock)
}

/// The order in which a task's operations complete.
fn order(config: &'static Config, net: &Net) -> Vec<u32> {
    let (mut engine, mut mock) = start(config, net);
    let (task, order) = finish(&mut engine, &mut mock);
    assert!(task.is_some(), "the task has not ended: {:?}", engine.abort(&mut mock).map(|(_, why)| why.to_string()));
    order.into_iter().map(|(operation, _, _)| operation).collect()
}

/// Writes to one register.
fn writes(mock: &Mock, config: &Config, block: Block, register: Register) -> usize {
    let offset = block.base(config.family).unwrap() + u32::from(register.offset);
    mock.log.iter().filter(|access| matches!(access, Access::Write(at, _) if *at == offset)).count()
}

/// Two convolutions with SDP, each with pooling of its output.
fn chain() -> Net {
    let mut net = Net::new();
    let mut before = None;
    for _ in 0..2 {
        let (conv, sdp) = net.convolution(SMALL, 0x2000);
        if let Some(before) = before {
            net.edge(before, conv, Event::OpCompleted);
        }
        let pool = net.pooling(SMALL, 0x3000);
        net.edge(sdp, pool, Event::OpCompleted);
        before = Some(pool);
    }
    net
}

#[test]
fn operations_complete_in_the_order_of_the_graph() {
    assert_eq!(order(&NV_SMALL, &chain()), [0, 1, 2, 3, 4, 5]);
}

#[test]
fn the_next_operation_is_programmed_while_one_runs() {
    let (_, mock) = start(&NV_SMALL, &chain());
    let registers = [
        (Block::Cdma, cdma::D_WEIGHT_BYTES),
        (Block::Csc, csc::D_WEIGHT_BYTES),
        (Block::Sdp, sdp::D_DATA_CUBE_WIDTH),
        (Block::SdpRdma, sdp_rdma::D_BS_BASE_ADDR_LOW),
    ];
    for (block, register) in registers {
        assert_eq!(mock.register(block, 0, register), mock.register(block, 1, register), "{}", block.name());
        assert_ne!(mock.register(block, 1, register), register.reset, "{}", block.name());
    }
}

#[test]
fn only_what_changes_is_written() {
    let (mut engine, mut mock) = start(&NV_SMALL, &chain());
    let (task, _) = finish(&mut engine, &mut mock);
    mock.log.clear();
    engine.submit(&mut mock, task.unwrap(), 0, u64::MAX).unwrap();
    assert!(finish(&mut engine, &mut mock).0.is_some());
    // Both groups of each unit have their values. Only pointers, starts and interrupts remain.
    for access in &mock.log {
        let Access::Write(offset, _) = *access else { continue };
        let block = Block::at(NV_SMALL.family, offset).unwrap();
        let register = block.registers().iter().find(|r| u32::from(r.register.offset) == offset % Block::SIZE).unwrap();
        assert!(["S_POINTER", "D_OP_ENABLE", "S_INTR_STATUS"].contains(&register.name), "{} is written", register.name);
    }
}

/// Releases of the hardware differ in what registers hold after reset: on nv_full's, SDP's sub-units and the DMAs of their
/// operands are on (`NV_NVDLA_SDP_REG_dual.v`, `NV_NVDLA_SDP_RDMA_REG_dual.v` of the branch nvdlav1).
#[test]
fn sub_units_that_are_not_used_are_switched_off() {
    let registers = [
        (Block::SdpRdma, sdp_rdma::D_NRDMA_CFG),
        (Block::SdpRdma, sdp_rdma::D_ERDMA_CFG),
        (Block::Sdp, sdp::D_DP_BN_CFG),
        (Block::Sdp, sdp::D_DP_EW_CFG),
    ];
    let (mut engine, mut mock) = (Engine::new(&NV_FULL), Mock::new(&NV_FULL));
    for (block, register) in registers {
        mock.write(block.base(NV_FULL.family).unwrap() + u32::from(register.offset), 0);
    }
    let mut net = Net::new();
    net.convolution(FULL, 0x2000);
    engine.submit(&mut mock, parse(&NV_FULL, &net), 0, u64::MAX).unwrap();
    for (block, register) in registers {
        assert_eq!(mock.register(block, 0, register), register.reset, "{} {:#x}", block.name(), register.offset);
    }
}

#[test]
fn a_read_dmas_groups_alternate_on_their_own() {
    let mut net = Net::new();
    for with_bias in [true, false, true, false, false, true] {
        let (_, sdp) = net.convolution(SMALL, 0x2000);
        if !with_bias {
            net.sdp(sdp).0.x1_op = None;
        }
    }
    let (mut engine, mut mock) = start(&NV_SMALL, &net);
    let (task, order) = finish(&mut engine, &mut mock);
    assert!(task.is_some());
    assert_eq!(order.len(), 12);
    assert_eq!(writes(&mock, &NV_SMALL, Block::SdpRdma, sdp_rdma::D_OP_ENABLE), 3);
}

#[test]
fn sdp_hands_over_to_pdp() {
    let mut net = Net::new();
    let (_, sdp) = net.convolution(SMALL, 0x2000);
    net.sdp(sdp).1.dst_data = SMALL.flying(6, 6, 8);
    let pool = net.pooling(SMALL, 0x3000);
    net.pdp(pool).1.src_data = SMALL.flying(6, 6, 8);
    net.fuse(sdp, pool);
    assert_eq!(order(&NV_SMALL, &net), [0, 1, 2]);
}

#[test]
fn a_table_is_loaded_once_and_never_under_a_running_unit() {
    const ENTRIES: usize = 65 + 257;
    let mut net = Net::new();
    for index in [0, 0, 1, -1, 1] {
        let sdp = net.copy(FULL, 0x3000);
        let op = net.sdp(sdp).0;
        op.lut_index = index;
        if index >= 0 {
            let mode = SdpOperandMode::PerLayer;
            op.y_op = Some(SdpSubUnit { enable: true, act: Activation::Lut, mode, ..SdpSubUnit::default() });
        }
    }
    let mut other = table();
    other.linear_exp_table[3] = 7;
    net.tables = vec![table(), other];
    let (mut engine, mut mock) = start(&NV_FULL, &net);
    let entries = |mock: &Mock| writes(mock, &NV_FULL, Block::Sdp, sdp::S_LUT_ACCESS_DATA);
    assert_eq!(entries(&mock), ENTRIES);
    let (task, order) = finish(&mut engine, &mut mock);
    assert_eq!(order.len(), 5);
    assert_eq!(entries(&mock), 2 * ENTRIES);
    // It begins with the first table again; the device holds the second.
    engine.submit(&mut mock, task.unwrap(), 0, u64::MAX).unwrap();
    assert_eq!(entries(&mock), 3 * ENTRIES);
}

#[test]
fn cdma_events_are_unmasked_only_if_an_operation_waits_for_them() {
    let (_, mock) = start(&NV_SMALL, &chain());
    assert_ne!(mock.mask & glb::S_INTR_MASK::CDMA_DAT_DONE_MASK0.mask(), 0);

    let mut net = Net::new();
    let (conv, _) = net.convolution(SMALL, 0x2000);
    let pool = net.pooling(SMALL, 0x3000);
    net.edge(conv, pool, Event::CdmaDataDone);
    let (mut engine, mut mock) = start(&NV_SMALL, &net);
    assert_eq!(mock.mask, 0);
    assert!(finish(&mut engine, &mut mock).0.is_some());
}

#[test]
fn regions_run_one_after_another_in_each_operation() {
    let mut net = chain();
    net.network.num_rois = 3;
    let (mut engine, mut mock) = start(&NV_SMALL, &net);
    let (task, order) = finish(&mut engine, &mut mock);
    assert!(task.is_some());
    let convolutions = order.iter().filter(|done| done.2 == OpType::Conv).map(|done| (done.0, done.1));
    assert_eq!(convolutions.collect::<Vec<_>>(), [(0, 0), (0, 1), (0, 2), (3, 0), (3, 1), (3, 2)]);
}

#[test]
fn bdma_without_transfers_completes_by_itself_and_its_queue_is_not_overrun() {
    let mut net = Net::new();
    for transfers in [0, 20, 20, 0, 3] {
        net.transfers(transfers);
    }
    assert_eq!(order(&NV_FULL, &net), [0, 1, 2, 3, 4]);
}

#[test]
fn every_unit_runs() {
    let mut net = Net::new();
    net.tables = vec![table()];
    let (_, sdp) = net.convolution(FULL, 0x2000);
    let pool = net.pooling(FULL, 0x4000);
    let norm = net.normalisation(FULL, 0x6000, 0);
    let contract = net.contraction(FULL, 0x8000);
    let copy = net.transfers(2);
    net.edge(sdp, pool, Event::OpCompleted);
    net.edge(sdp, norm, Event::OpEnabled);
    net.edge(pool, contract, Event::OpCompleted);
    net.edge(contract, copy, Event::OpCompleted);
    let mut order = order(&NV_FULL, &net);
    order.sort_unstable();
    assert_eq!(order, (0..6).collect::<Vec<_>>());
}

#[test]
fn counted_writes_are_those_of_the_engine() {
    let mut net = Net::new();
    let mut other = table();
    other.linear_exp_table[3] = 7;
    net.tables = vec![table(), other];
    for at in 0..3 {
        net.convolution(FULL, 0x2000);
        net.pooling(FULL, 0x4000);
        net.normalisation(FULL, 0x6000, at % 2);
        net.contraction(FULL, 0x8000);
        net.transfers(2);
        net.copy(FULL, 0x3000);
    }
    let (mut engine, mut mock) = start(&NV_FULL, &net);
    let (mut counter, mut task) = (WriteCounter::new(&NV_FULL), parse(&NV_FULL, &net));
    let glb =
        |access: &Access| matches!(access, Access::Write(at, _) if Block::at(NV_FULL.family, *at) == Some(Block::Glb));
    for run in 0..3 {
        if run > 0 {
            mock.log.clear();
            engine.submit(&mut mock, task, 0, u64::MAX).unwrap();
        }
        task = finish(&mut engine, &mut mock).0.unwrap();
        // Interrupts are cleared in GLB.
        let written = mock.writes() - mock.log.iter().filter(|access| glb(access)).count();
        let mut counted = Vec::new();
        counter.run(&task, |operation, writes| {
            counted.push((operation, writes.registers + writes.table + writes.enable));
        });
        assert_eq!(counted.iter().map(|(_, writes)| *writes as usize).sum::<usize>(), written, "run {run}");
        counted.sort_unstable();
        assert!(counted.iter().map(|(operation, _)| *operation).eq(0..task.operations()));
    }
}

#[test]
fn statistics_are_read_on_request_and_written_back() {
    let mut net = chain();
    net.network.stat_list_index = address::STATISTICS;
    let mut memory = net.task();
    let (mut engine, mut mock) = (Engine::new(&NV_SMALL), Mock::new(&NV_SMALL));
    engine.submit(&mut mock, memory.parse(&NV_SMALL).unwrap(), 5_000, u64::MAX).unwrap();
    let task = finish(&mut engine, &mut mock).0.unwrap();
    assert!(matches!(task.iter().next().unwrap().statistics(), Some(Stat::Conv(_))));
    task.write_statistics(&mut memory).unwrap();

    let (mut engine, mut without) = start(&NV_SMALL, &chain());
    let task = finish(&mut engine, &mut without).0.unwrap();
    assert!(task.iter().all(|operation| operation.statistics().is_none()));
    // Nine registers of a convolution, ten of SDP, four of PDP.
    assert_eq!(mock.reads(), without.reads() + 2 * (9 + 10 + 4));
}

#[test]
fn a_convolution_waits_for_its_buffer_to_be_cleared() {
    let (mut engine, mut mock) = (Engine::new(&NV_SMALL), Mock::new(&NV_SMALL));
    mock.flushing = 3;
    engine.submit(&mut mock, parse(&NV_SMALL, &chain()), 0, u64::MAX).unwrap();
    assert!(!mock.step());
    assert!(matches!(engine.process_events(&mut mock, 0), Progress::Waiting { poll: true }));
    assert!(finish(&mut engine, &mut mock).0.is_some());
}

#[test]
fn an_idle_engine_accesses_no_registers_when_observed() {
    let (mut engine, mut mock) = (Engine::new(&NV_SMALL), Mock::new(&NV_SMALL));
    assert!(engine.observe(&mut mock).is_none());
    assert!(engine.check_deadline(&mut mock, u64::MAX).is_none());
    assert_eq!(mock.log, []);
    engine.submit(&mut mock, parse(&NV_SMALL, &chain()), 0, u64::MAX).unwrap();
    assert_eq!(engine.observe(&mut mock).unwrap().cause, Cause::Observed);
}

#[test]
fn a_unit_that_hangs_is_named_and_the_next_task_runs() {
    let (mut engine, mut mock) = (Engine::new(&NV_SMALL), Mock::new(&NV_SMALL));
    mock.hung = vec![OpType::Pdp];
    engine.submit(&mut mock, parse(&NV_SMALL, &chain()), 0, 1000).unwrap();
    assert!(finish(&mut engine, &mut mock).0.is_none());
    assert!(engine.check_deadline(&mut mock, 999).is_none());
    let failure = engine.check_deadline(&mut mock, 1000).unwrap();
    assert_eq!((failure.cause, failure.completed, failure.total), (Cause::Deadline, 2, 6));
    let text = failure.to_string();
    assert!(text.contains("operation 2 (PDP, group 0) was running, and its interrupt did not come"), "{text}");
    assert!(text.contains("operation 3 (CONV, group 1) was waiting for"), "{text}");

    let (task, failure) = engine.abort(&mut mock).unwrap();
    assert_eq!(failure.cause, Cause::Aborted);
    let refused = engine.submit(&mut mock, task, 0, u64::MAX).unwrap_err();
    assert_eq!(refused.error, SubmitError::NeedsReset);
    let mut mock = Mock::new(&NV_SMALL);
    assert!(engine.reset().is_none());
    engine.submit(&mut mock, refused.task, 0, u64::MAX).unwrap();
    assert!(finish(&mut engine, &mut mock).0.is_some());
}

#[test]
fn undelivered_interrupts_and_missing_ones_are_distinguished() {
    let (mut engine, mut mock) = start(&NV_SMALL, &chain());
    mock.run();
    let text = engine.abort(&mut mock).unwrap().1.to_string();
    assert!(text.contains("operation 0 (CONV, group 0) ended, but its interrupt was not delivered"), "{text}");

    let (mut engine, mut mock) = start(&NV_SMALL, &chain());
    mock.lost = glb::S_INTR_STATUS::CACC_DONE_STATUS0.mask();
    finish(&mut engine, &mut mock);
    let text = engine.abort(&mut mock).unwrap().1.to_string();
    assert!(text.contains("operation 0 (CONV, group 0) was running, and its interrupt did not come"), "{text}");
}

#[test]
fn interrupts_that_mean_nothing_change_nothing() {
    use glb::S_INTR_STATUS as Status;
    let (mut engine, mut mock) = start(&NV_SMALL, &chain());
    assert!(!engine.interrupt(&mut mock));
    // None for the operations that are enabled: the first convolution, and SDP's operations behind both.
    let enabled = Status::CACC_DONE_STATUS0.mask() | Status::SDP_DONE_STATUS0.mask() | Status::SDP_DONE_STATUS1.mask();
    mock.status = glb::S_INTR_STATUS.writable & !enabled;
    assert!(engine.interrupt(&mut mock));
    assert_eq!(mock.status, 0);
    assert!(matches!(engine.process_events(&mut mock, 0), Progress::Waiting { poll: false }));
    assert!(finish(&mut engine, &mut mock).0.is_some());
    assert!(matches!(engine.process_events(&mut mock, 0), Progress::Idle));
}

#[test]
fn a_busy_engine_and_a_task_for_another_device_are_refused() {
    let (mut engine, mut mock) = start(&NV_SMALL, &chain());
    assert_eq!(engine.submit(&mut mock, parse(&NV_SMALL, &chain()), 0, 0).unwrap_err().error, SubmitError::Busy);
    let mut engine = Engine::new(&NV_FULL);
    let error = engine.submit(&mut mock, parse(&NV_SMALL, &chain()), 0, 0).unwrap_err().error;
    assert_eq!(error.to_string(), "the task is for nv_small, the device is nv_full");
}

#[test]
fn a_used_device_is_taken_over() {
    let mut net = Net::new();
    net.convolution(SMALL, 0x2000);
    let (mut engine, mut mock) = start(&NV_SMALL, &net);
    assert!(finish(&mut engine, &mut mock).0.is_some());
    // Another engine. It does not know that the device's second groups are next.
    let mut engine = Engine::new(&NV_SMALL);
    assert!(engine.adopt(&mut mock).is_none());
    engine.submit(&mut mock, parse(&NV_SMALL, &chain()), 0, u64::MAX).unwrap();
    assert!(finish(&mut engine, &mut mock).0.is_some());
}

#[test]
fn a_task_without_operations_ends_at_once() {
    let (mut engine, mut mock) = start(&NV_SMALL, &Net::new());
    assert!(matches!(engine.process_events(&mut mock, 0), Progress::Ended(_)));
}

#[test]
fn a_device_that_is_gone_completes_nothing() {
    let (mut engine, mut mock) = start(&NV_SMALL, &chain());
    // A device behind a link that is down.
    let gone = &mut Double((), |(): &mut (), _, _| u32::MAX);
    assert!(engine.interrupt(gone) && engine.is_gone());
    assert!(matches!(engine.process_events(gone, 0), Progress::Waiting { poll: false }));
    // Before the deadline.
    let failure = engine.check_deadline(gone, 0).unwrap();
    assert_eq!((failure.cause, failure.completed), (Cause::Gone, 0));
    let text = failure.to_string();
    assert!(text.starts_with("the device is gone (its registers read as all ones) after 0 of 6 operations"), "{text}");
    assert!(text.contains("operation 0 (CONV, group 0) was running, and its interrupt did not come"), "{text}");
    assert!(engine.abort(gone).is_some() && !engine.is_idle(gone));
    // Without a task the interrupt is another device's.
    assert!(!engine.interrupt(gone));
    engine.reset();
    assert!(!engine.is_gone());
    assert!(!engine.interrupt(&mut mock));
}

#[test]
fn a_device_is_idle_when_its_groups_and_bdma_are() {
    // Reads return zero, except for one register.
    let one = |at, value| Double((), move |(): &mut (), offset, _| if offset == at { value } else { 0 });
    let at = |config: &Config, block: Block, register: Register| {
        block.base(config.family).unwrap() + u32::from(register.offset)
    };
    let full: Engine<Vec<Slot>> = Engine::new(&NV_FULL);
    let status = at(&NV_FULL, Block::Bdma, bdma::STATUS);
    assert!(full.is_idle(&mut one(status, bdma::STATUS::IDLE.put(true))));
    assert!(!full.is_idle(&mut one(status, bdma::STATUS::GRP0_BUSY.put(true))));
    let small: Engine<Vec<Slot>> = Engine::new(&NV_SMALL);
    assert!(small.is_idle(&mut one(0, 0)));
    for block in [Block::Cdma, Block::SdpRdma, Block::Sdp, Block::Pdp, Block::Cdp] {
        assert!(!small.is_idle(&mut one(at(&NV_SMALL, block, cdma::S_STATUS), 1)), "{block:?}");
    }
}
