// SPDX-License-Identifier: MIT OR Apache-2.0

//! Networks and contexts on the built-in model: several at the same time, from several threads, dropped in any order.

mod common;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use common::{small, Recorder};
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nvdla_runtime::device::{
    self, AddressEntry, Buffers, Device, DeviceInfo, Handle, ModelDevice, Observer, Pages, Shared, TaskReport,
};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::{Direction, Error, RunOptions, Session, SubmitOptions};
use nvdla_runtime::{Cancel, Context, ErrorKind, Network};
use nvdla_uapi::config::{NV_LARGE, NV_SMALL};

fn lenet() -> Loadable {
    Loadable::open(concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/lenet/lenet.nv_small.nvdla")).unwrap()
}

fn network() -> Network {
    Network::new(lenet(), &Shared::new(ModelDevice::new(&NV_SMALL))).unwrap()
}

/// An input of the right size, different for each seed.
fn input(seed: u64) -> Vec<u8> {
    (0..28 * 32).map(|at| ((at + seed * 131) * 37 % 128) as u8).collect()
}

/// The result of a separate session for an input.
fn golden(seed: u64) -> Vec<u8> {
    let mut session = Session::new(lenet(), ModelDevice::new(&NV_SMALL)).unwrap();
    session.set_input(0, &input(seed)).unwrap();
    session.run().unwrap();
    session.output(0).unwrap().to_vec()
}

fn soon(milliseconds: u64) -> Instant {
    Instant::now() + Duration::from_millis(milliseconds)
}

fn busy<T: std::fmt::Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
}

/// A model that waits before each task.
struct Slow(ModelDevice, Duration);

impl Buffers for Slow {
    fn bytes(&self, handle: Handle) -> &[u8] {
        self.0.bytes(handle)
    }
}

impl Device for Slow {
    fn info(&self) -> DeviceInfo {
        self.0.info()
    }
    fn allocate(&mut self, size: u64) -> Result<Handle, device::Error> {
        self.0.allocate(size)
    }
    fn free(&mut self, handle: Handle) {
        self.0.free(handle);
    }
    fn bytes_mut(&mut self, handle: Handle) -> &mut [u8] {
        self.0.bytes_mut(handle)
    }
    fn pages(&self, handle: Handle) -> Option<Arc<Pages>> {
        self.0.pages(handle)
    }
    fn submit(
        &mut self,
        addresses: &[AddressEntry],
        timeout: Option<Duration>,
        observer: Option<Observer<'_>>,
    ) -> Result<TaskReport, device::Error> {
        thread::sleep(self.1);
        self.0.submit(addresses, timeout, observer)
    }
}

fn slow() -> Network {
    let device = Slow(ModelDevice::new(&NV_SMALL), Duration::from_millis(100));
    Network::new(lenet(), &Shared::new(device)).unwrap()
}

#[test]
fn contexts_in_several_threads_give_the_bytes_of_a_session() {
    let network = network();
    assert!(network.shared_bytes() > 50_000, "the weights are shared: {}", network.shared_bytes());
    let golden: Vec<_> = (0..4).map(golden).collect();
    thread::scope(|scope| {
        for (seed, golden) in golden.iter().enumerate() {
            let network = &network;
            scope.spawn(move || {
                let mut context = network.context().unwrap();
                for round in 0..8 {
                    context.set_input(0, &input(seed as u64)).unwrap();
                    if round % 2 == 0 {
                        let report = context.submit().unwrap().wait(None).unwrap();
                        assert_eq!(report.tasks.iter().map(|task| task.id).collect::<Vec<_>>(), [0, 1]);
                        assert!(report.tasks.iter().all(|task| task.operations > 0));
                    } else {
                        context.run().unwrap();
                    }
                    assert_eq!(context.output(0).unwrap(), golden);
                }
            });
        }
    });
}

#[test]
fn many_runs_in_flight_end_in_any_order_of_waiting() {
    let network = network();
    let mut contexts: Vec<Context> = (0..6).map(|_| network.context().unwrap()).collect();
    let mut pending = Vec::new();
    for (seed, context) in contexts.iter_mut().enumerate() {
        context.set_input(0, &input(seed as u64)).unwrap();
        pending.push(context.submit().unwrap());
    }
    for pending in pending.iter_mut().rev() {
        pending.wait(soon(60_000)).unwrap();
        assert_eq!(pending.wait(None).unwrap_err().kind(), ErrorKind::Argument, "a result is returned once");
    }
    for (seed, context) in contexts.iter().enumerate() {
        assert_eq!(context.output(0).unwrap(), golden(seed as u64));
    }
}

#[test]
fn two_networks_share_a_device() {
    let device = Shared::new(ModelDevice::new(&NV_SMALL));
    let networks = [Network::new(lenet(), &device).unwrap(), Network::new(lenet(), &device).unwrap()];
    let mut contexts = networks.each_ref().map(|network| network.context().unwrap());
    drop((networks, device));
    for (seed, context) in contexts.iter_mut().enumerate() {
        context.set_input(0, &input(seed as u64)).unwrap();
        context.run().unwrap();
        assert_eq!(context.output(0).unwrap(), golden(seed as u64));
    }
}

#[test]
fn a_run_ends_after_its_network_and_context_are_dropped() {
    let network = network();
    let mut context = network.context().unwrap();
    context.set_input(0, &input(1)).unwrap();
    let pending = context.submit().unwrap();
    drop((network, context));
    assert_eq!(pending.wait(soon(60_000)).unwrap().tasks.len(), 2);
}

#[test]
fn a_pending_that_is_dropped_leaves_the_context_busy_until_the_run_has_ended() {
    let network = network();
    let mut context = network.context().unwrap();
    context.set_input(0, &input(2)).unwrap();
    drop(context.submit().unwrap());
    context.wait(soon(60_000)).unwrap();
    assert!(!context.is_busy());
    assert_eq!(context.output(0).unwrap(), golden(2));
    assert_eq!(context.wait(None).unwrap_err().kind(), ErrorKind::Argument);
}

#[test]
fn the_memory_of_a_context_is_not_touched_while_a_run_is_in_flight() {
    let mut context = slow().context().unwrap();
    let pending = context.submit().unwrap();
    assert!(context.is_busy());
    busy(context.output(0).map(<[u8]>::to_vec));
    busy(context.input_mut(0).map(|_| ()));
    busy(context.submit().map(drop));
    busy(context.run());
    let error = pending.wait(soon(1)).unwrap_err();
    assert!(matches!(error, Error::NotYet));
    assert_eq!(error.kind(), ErrorKind::Deadline);
    pending.wait(None).unwrap();
    context.output(0).unwrap();
}

#[test]
fn the_descriptor_is_readable_when_the_run_has_ended() {
    let mut context = slow().context().unwrap();
    let pending = context.submit().unwrap();
    let readable = |milliseconds: u16| {
        let mut fds = [PollFd::new(pending.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(milliseconds)).unwrap() == 1
    };
    assert!(!readable(1));
    assert!(readable(20_000));
    assert!(pending.is_ended());
    pending.wait(Instant::now()).unwrap();
}

#[test]
fn a_run_has_a_time_of_its_own() {
    let mut device = ModelDevice::new(&NV_SMALL);
    device.set_mute(true);
    let network = Network::new(lenet(), &Shared::new(device)).unwrap();
    let mut contexts = [network.context().unwrap(), network.context().unwrap()];
    let options = SubmitOptions { timeout: Some(Duration::from_millis(50)), ..Default::default() };
    let mut pending = contexts.each_mut().map(|context| context.submit_with(options).unwrap());
    for pending in &mut pending {
        let error = pending.wait(soon(20_000)).unwrap_err();
        assert!(error.is_timeout(), "{error}");
        assert_eq!(error.kind(), ErrorKind::Deadline);
    }
}

#[test]
fn a_refused_task_ends_its_run_alone() {
    let device = Shared::new(ModelDevice::new(&NV_LARGE));
    let network = Network::new(lenet(), &device).unwrap();
    let mut context = network.context().unwrap();
    for _ in 0..2 {
        let error = context.submit().unwrap().wait(None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    }
    let large = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/lenet/lenet.nv_large.nvdla");
    let mut other = Network::new(Loadable::open(large).unwrap(), &device).unwrap().context().unwrap();
    other.submit().unwrap().wait(None).unwrap();
}

#[test]
fn operations_can_be_observed_in_a_run_that_is_waited_for() {
    let mut context = network().context().unwrap();
    let mut seen = 0;
    let mut observe = |_: nvdla_runtime::session::Completed<'_>| {
        seen += 1;
        Ok(())
    };
    context.run_with(RunOptions { on_operation: Some(&mut observe), ..Default::default() }).unwrap();
    assert_eq!(seen, 10);
}

#[test]
fn a_changed_context_copies_its_descriptors() {
    let device = Shared::new(ModelDevice::new(&NV_SMALL));
    let network = Network::new(Loadable::from_bytes(small().to_bytes().unwrap()).unwrap(), &device).unwrap();
    let [mut changed, mut same] = [network.context().unwrap(), network.context().unwrap()];
    // The results of the small network, an emulated softmax, with changed strides in one context and the loadable's in the other.
    changed.session().unwrap().set_strides(Direction::Input, 0, 16, 32).unwrap();
    let scores = [0, 1, 2, 60, 4, 5, 6, 7, 8, 9];
    let mut apart = [0; 64];
    apart[..8].copy_from_slice(&scores[..8]);
    apart[32..34].copy_from_slice(&scores[8..]);
    changed.set_input(0, &apart).unwrap();
    same.input_mut(0).unwrap()[..10].copy_from_slice(&scores);
    for context in [&mut changed, &mut same] {
        context.submit().unwrap().wait(None).unwrap();
    }
    assert_eq!(changed.output(0).unwrap(), same.output(0).unwrap());
    assert!(same.output(0).unwrap()[3] > 90);
}

#[test]
fn memory_is_shared_by_descriptors() {
    let network = network();
    let [mut first, mut second] = [network.context().unwrap(), network.context().unwrap()];
    first.set_input(0, &input(3)).unwrap();
    let fd = first.export(Direction::Input, 0).unwrap();
    second.bind_fd(Direction::Input, 0, fd.as_fd()).unwrap();
    assert_eq!(second.input_mut(0).unwrap(), input(3), "one memory");
    second.input_mut(0).unwrap().copy_from_slice(&input(4));
    for context in [&mut first, &mut second] {
        context.submit().unwrap().wait(None).unwrap();
        assert_eq!(context.output(0).unwrap(), golden(4));
    }
    drop(first);
    second.run().unwrap();
    assert_eq!(second.output(0).unwrap(), golden(4));
    let short = std::fs::File::open("/dev/null").unwrap();
    let error = second.bind_fd(Direction::Output, 0, short.as_fd()).unwrap_err();
    let reasons = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
    assert_eq!(reasons.last().unwrap().to_string(), "it has no bytes");
}

#[test]
fn a_device_without_shared_memory_runs_no_contexts() {
    let loadable = Loadable::from_bytes(small().to_bytes().unwrap()).unwrap();
    let error = Network::new(loadable, &Shared::new(Recorder::new())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

/// A network on a device that never ends a task.
fn endless() -> Network {
    let mut device = ModelDevice::new(&NV_SMALL);
    device.set_mute(true);
    Network::new(lenet(), &Shared::new(device)).unwrap()
}

#[test]
fn a_run_is_cancelled() {
    let network = endless();
    let (mut submitted, mut run) = (network.context().unwrap(), network.context().unwrap());
    let pending = submitted.submit().unwrap();
    assert!(matches!(pending.wait(soon(20)), Err(Error::NotYet)));
    let since = Instant::now();
    pending.cancel();
    let error = pending.wait(None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    assert!(!submitted.is_busy());
    // A run that is cancelled from another thread, first while it runs, then before it begins.
    let cancel = Cancel::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(20));
            cancel.cancel();
        });
        for _ in 0..2 {
            let error = run.run_with(RunOptions { cancel: Some(cancel.clone()), ..Default::default() }).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        }
    });
    assert!(since.elapsed() < Duration::from_secs(60), "the device's own limit is ten minutes");
}

#[test]
fn several_threads_wait_for_one_run() {
    let mut context = endless().context().unwrap();
    let pending = context.submit().unwrap();
    thread::scope(|scope| {
        let long = scope.spawn(|| pending.wait(None));
        thread::sleep(Duration::from_millis(20));
        // Neither the descriptor nor a short wait waits for the other thread.
        let mut fds = [PollFd::new(pending.as_fd(), PollFlags::POLLIN)];
        assert_eq!(poll(&mut fds, PollTimeout::ZERO).unwrap(), 0);
        assert!(matches!(pending.wait(soon(10)), Err(Error::NotYet)));
        let again = context.pending().unwrap();
        assert!(matches!(again.wait(soon(10)), Err(Error::NotYet)));
        again.cancel();
        assert_eq!(long.join().unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    });
    assert_eq!(pending.wait(None).unwrap_err().kind(), ErrorKind::Argument);
}

#[test]
fn memory_of_any_size_is_bound() {
    let network = network();
    let mut context = network.context().unwrap();
    let size = context.inputs().next().unwrap().size;
    for more in [0, 1, 8, 13, 4096, 5000] {
        let file = tempfile::tempfile().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &input(7), 0).unwrap();
        file.set_len(size + more).unwrap();
        context.bind_fd(Direction::Input, 0, file.as_fd()).unwrap();
        context.run().unwrap_or_else(|error| panic!("{more} bytes more: {error:?}"));
        assert_eq!(context.output(0).unwrap(), golden(7));
        // Buffers that are made later have addresses that the device takes.
        let mut other = network.context().unwrap();
        other.set_input(0, &input(8)).unwrap();
        other.run().unwrap_or_else(|error| panic!("after {more} bytes more: {error:?}"));
        assert_eq!(other.output(0).unwrap(), golden(8));
    }
}

/// Calls a function in a forked process, and returns whether it said that the process was forked.
fn forked(work: impl FnOnce() -> Result<(), Error>) -> bool {
    // SAFETY: the child calls only `work`, which returns before it locks or waits for anything, and `_exit`.
    match unsafe { libc::fork() } {
        0 => {
            let told = work().is_err_and(|error| error.kind() == ErrorKind::Unsupported);
            // SAFETY: ends the child without the destructors of its parent.
            unsafe { libc::_exit(if told { 7 } else { 1 }) }
        }
        child => {
            let mut status = 0;
            // SAFETY: the child is this process's own, and `status` is its memory.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 7
        }
    }
}

#[test]
fn a_forked_process_is_told_that_it_has_no_device() {
    let network = network();
    let mut context = network.context().unwrap();
    context.run().unwrap();
    assert!(forked(|| context.run().map(drop)));
    assert!(forked(|| context.submit().map(drop)));
    assert!(forked(|| context.output(0).map(drop)));
    assert!(forked(|| network.context().map(drop)));
    // The threads that compute exist once per process, whoever opens the device.
    assert!(forked(|| Session::new(lenet(), ModelDevice::new(&NV_SMALL))?.run().map(drop)));
    let mut endless = endless().context().unwrap();
    let pending = endless.submit().unwrap();
    assert!(forked(|| pending.wait(None).map(drop)));
    pending.cancel();
    context.run().unwrap();
}
