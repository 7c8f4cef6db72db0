// SPDX-License-Identifier: MIT OR Apache-2.0

//! Estimates how long a task takes on the model, from its descriptors, without running it.

use nvdla_engine::TaskMemory;
use nvdla_uapi::desc::{self, CommonOp, Descriptor, Network, OpType, Operation, Surface, Wire};

/// Steps of an operation: products of a convolution, elements of a window, bytes moved.
pub fn of_operation(operation: &Operation, surface: &Surface) -> u64 {
    let product = |sizes: &[u64]| sizes.iter().fold(1u64, |all, &size| all.saturating_mul(size.max(1)));
    let cube = |cube: &desc::DataCube| product(&[cube.width, cube.height, cube.channel].map(u64::from));
    match (operation, surface) {
        (Operation::Conv(op), Surface::Conv(surface)) => {
            let kernel = [op.kernel_width_csc, op.kernel_height_csc, op.kernel_channel_csc].map(u64::from);
            // Kernels are computed in groups; a group has as many kernels as an atom has elements.
            let kernels = u64::from(surface.dst_data.channel).next_multiple_of(32);
            let columns = [surface.dst_data.width, surface.dst_data.height].map(u64::from);
            let batch = u64::from(op.batch).max(1);
            let data = cube(&surface.src_data).saturating_mul(4);
            product(&columns)
                .saturating_mul(kernels)
                .saturating_mul(product(&kernel))
                .saturating_add(data)
                .saturating_mul(batch)
        }
        (Operation::Sdp(op), Surface::Sdp(surface)) => {
            cube(&surface.dst_data).max(cube(&surface.src_data)).saturating_mul(u64::from(op.batch_num).max(1) * 8)
        }
        (Operation::Pdp(op), Surface::Pdp(surface)) => {
            let window = product(&[u64::from(op.pool_width) + 1, u64::from(op.pool_height) + 1]);
            cube(&surface.src_data).saturating_add(cube(&surface.dst_data).saturating_mul(window)).saturating_mul(2)
        }
        (Operation::Cdp(_), Surface::Cdp(surface)) => cube(&surface.src_data).saturating_mul(64),
        (Operation::Rubik(op), Surface::Rubik(surface)) => {
            let each = product(&[u64::from(op.stride_x), u64::from(op.stride_y)]);
            cube(&surface.src_data).max(cube(&surface.dst_data)).saturating_mul(each).saturating_mul(2)
        }
        (Operation::Bdma(_), Surface::Bdma(surface)) => {
            let transfers = surface.transfers.iter().take(surface.num_transfers.into());
            let bytes =
                transfers.map(|one| product(&[one.line_size, one.line_repeat, one.surface_repeat].map(u64::from)));
            bytes.fold(0, u64::saturating_add)
        }
        _ => 0,
    }
}

/// Steps of a task that the engine has accepted, in all its regions.
pub fn of_task(memory: &dyn TaskMemory) -> u64 {
    fn read<const SIZE: usize>(memory: &dyn TaskMemory, list: i16, index: usize) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        // The engine does not accept tasks whose descriptors cannot be read.
        let _ = memory.read(list as usize, (index * SIZE) as u64, &mut bytes);
        bytes
    }
    let Ok(network) = Network::parse(&read::<{ Network::SIZE }>(memory, 0, 0)) else { return 0 };
    let regions = u64::from(network.num_rois).max(1);
    let mut steps = 0u64;
    for index in 0..usize::from(network.num_operations) {
        let entry: [u8; CommonOp::SIZE] = read(memory, network.dependency_graph_index, index);
        let unit = CommonOp::peek_op_type(&entry).unwrap_or(OpType::Bdma);
        let operation =
            Operation::parse(unit, &read::<{ Operation::SIZE }>(memory, network.operation_desc_index, index));
        let surface = Surface::parse(unit, &read::<{ Surface::SIZE }>(memory, network.surface_desc_index, index));
        if let (Ok(operation), Ok(surface)) = (operation, surface) {
            steps = steps.saturating_add(of_operation(&operation, &surface));
        }
    }
    steps.saturating_mul(regions)
}
