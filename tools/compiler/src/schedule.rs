// SPDX-License-Identifier: MIT OR Apache-2.0

//! The dependency graph of a task: which operation waits for which event of which other.
//!
//! An entry has one consumer slot a processor. Operations of one processor run in the order of the list, each waiting
//! for the one before it to be programmed; so of several on one processor that need a result, only the first has to
//! wait for it.

use nvdla_uapi::desc::{CommonOp, Consumer, Event, OpType, PROCESSORS};

use crate::error::Error;
use crate::program::{Base, Kind, Operation, SurfaceId};

/// The dependency graph, an entry an operation.
pub fn schedule(operations: &[Operation]) -> Result<Vec<CommonOp>, Error> {
    if operations.len() > i16::MAX as usize {
        return Err(Error::Network(format!("{} operations in one task, more than 32767", operations.len())));
    }
    let mut entries: Vec<CommonOp> = operations
        .iter()
        .map(|operation| CommonOp { op_type: operation.kind.op_type(), ..Default::default() })
        .collect();
    for (index, entry) in entries.iter_mut().enumerate() {
        entry.index = index as i16;
    }
    for (index, operation) in operations.iter().enumerate() {
        let mut slots: [Option<Consumer>; PROCESSORS] = [None; PROCESSORS];
        for (later, other) in operations.iter().enumerate().skip(index + 1) {
            let slot = &mut slots[other.kind.op_type() as usize];
            let needs = reads(other, operation.kind.target().surface());
            let same = other.kind.op_type() == operation.kind.op_type();
            let fused = later == index + 1 && takes_on_the_fly(other);
            match slot {
                None if same || needs || fused => {
                    let event = if needs { Event::OpCompleted } else { Event::OpProgrammed };
                    *slot = Some(Consumer { index: later as i16, event });
                }
                // The next operation of this processor waits in the place of a later one.
                Some(consumer) if same && needs => consumer.event = Event::OpCompleted,
                _ => {}
            }
        }
        for consumer in slots.iter().flatten() {
            count(&mut entries, consumer.index, operations)?;
        }
        entries[index].consumers = slots;
        if takes_on_the_fly(operation) {
            let parent = index as i16 - 1;
            entries[index].fused_parent = Some(Consumer { index: parent, event: Event::OpEnabled });
            count(&mut entries, parent, operations)?;
        }
    }
    Ok(entries)
}

/// The first operation of each processor, -1 for none.
pub fn heads(operations: &[Operation]) -> [i16; PROCESSORS] {
    let mut heads = [-1; PROCESSORS];
    for (index, operation) in operations.iter().enumerate().rev() {
        heads[operation.kind.op_type() as usize] = index as i16;
    }
    heads
}

/// For each operation, those that have certainly completed before it touches memory, itself not among them.
///
/// A fused pair counts as one: SDP writes only what the convolution gives it.
pub fn completed_before(operations: &[Operation]) -> Vec<Vec<bool>> {
    let mut before: Vec<Vec<bool>> = Vec::with_capacity(operations.len());
    for (index, operation) in operations.iter().enumerate() {
        let mut done = vec![false; operations.len()];
        if takes_on_the_fly(operation) {
            done.clone_from(&before[index - 1]);
        }
        for (earlier, other) in operations.iter().enumerate().take(index) {
            if reads(operation, other.kind.target().surface()) {
                for (done, &before) in done.iter_mut().zip(&before[earlier]) {
                    *done |= before;
                }
                done[earlier] = true;
                // The convolution whose sums it wrote ended before it.
                if takes_on_the_fly(other) {
                    done[earlier - 1] = true;
                }
            }
        }
        before.push(done);
    }
    before
}

fn reads(operation: &Operation, surface: Option<SurfaceId>) -> bool {
    operation.kind.surfaces_read().any(|read| Some(read) == surface)
}

fn takes_on_the_fly(operation: &Operation) -> bool {
    matches!(&operation.kind, Kind::Sdp { source, .. } if source.base == Base::OnTheFly)
}

fn count(entries: &mut [CommonOp], index: i16, operations: &[Operation]) -> Result<(), Error> {
    let entry = &mut entries[index as usize];
    entry.dependency_count = entry.dependency_count.checked_add(1).ok_or_else(|| {
        Error::unsupported(&operations[index as usize].layer, "an operation of it waits for more than 255 others")
    })?;
    Ok(())
}

const _: () = assert!(OpType::ALL.len() == PROCESSORS);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Cube;
    use nvdla_uapi::desc::{ConvOp, PdpOp, SdpOp};

    fn cube(base: Base) -> Cube {
        Cube { base, offset: 0, size: 8, width: 1, height: 1, channels: 1, line_stride: 8, surface_stride: 8 }
    }

    fn surface(id: usize) -> Cube {
        cube(Base::Surface(SurfaceId(id)))
    }

    fn pair(from: usize, to: usize) -> [Operation; 2] {
        let fly = cube(Base::OnTheFly);
        let conv =
            Kind::Convolution { op: Box::new(ConvOp::default()), source: surface(from), weights: fly, target: fly };
        let sdp = Kind::Sdp { op: Box::new(SdpOp::default()), source: fly, operands: None, target: surface(to) };
        [conv, sdp].map(|kind| Operation { layer: String::new(), kind })
    }

    fn pool(from: usize, to: usize) -> Operation {
        let kind = Kind::Pdp { op: Box::new(PdpOp::default()), source: surface(from), target: surface(to) };
        Operation { layer: String::new(), kind }
    }

    /// Two convolutions and a pooling each: what existing compilers make of LeNet's first half.
    #[test]
    fn a_chain() {
        let mut operations = Vec::from(pair(0, 1));
        operations.push(pool(1, 2));
        operations.extend(pair(2, 3));
        operations.push(pool(3, 4));
        let entries = schedule(&operations).unwrap();
        let counts: Vec<u8> = entries.iter().map(|entry| entry.dependency_count).collect();
        assert_eq!(counts, [1, 1, 1, 3, 2, 2]);
        let consumer = |index, event| Some(Consumer { index, event });
        let slot = |op: usize, of: OpType| entries[op].consumers[of as usize];
        assert_eq!(slot(0, OpType::Conv), consumer(3, Event::OpProgrammed));
        assert_eq!(slot(0, OpType::Sdp), consumer(1, Event::OpProgrammed));
        assert_eq!(slot(1, OpType::Pdp), consumer(2, Event::OpCompleted));
        assert_eq!(slot(1, OpType::Sdp), consumer(4, Event::OpProgrammed));
        assert_eq!(slot(2, OpType::Conv), consumer(3, Event::OpCompleted));
        assert_eq!(entries[1].fused_parent, consumer(0, Event::OpEnabled));
        assert_eq!(heads(&operations), [-1, 0, 1, 2, -1, -1]);
        let before = completed_before(&operations);
        assert_eq!(before[4], [true, true, true, false, false, false]);
    }

    /// A result that the processor's operation after next needs: the next one waits for it.
    #[test]
    fn a_later_user_on_the_same_processor() {
        let operations = [pool(0, 1), pool(0, 2), pool(1, 3)];
        let entries = schedule(&operations).unwrap();
        let slot = entries[0].consumers[OpType::Pdp as usize];
        assert_eq!(slot, Some(Consumer { index: 1, event: Event::OpCompleted }));
        assert_eq!(entries[2].dependency_count, 1);
    }
}
