// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tasks that are built in code, for tests of the engine: descriptors as values, which a test may change before they are written.

use nvdla_uapi::config::Config;
use nvdla_uapi::desc::{
    self, BdmaSurface, BdmaTransfer, CdpOp, CdpSurface, CommonOp, Consumer, ConvOp, ConvSurface, CvtParam, DataCube,
    DataFormat, Descriptor, Event, Lut, MemoryType, Network, OpType, PdpOp, PdpSurface, RubikOp, RubikSurface, SdpOp,
    SdpOperandMode, SdpOperation, SdpSubUnit, SdpSurface, Stat, Surface, Wire,
};
use nvdla_uapi::layout::{align, buffer};
use nvdla_uapi::reg::values::{AluAlgorithm, PoolingMethod, Precision, RubikMode};

use crate::tasks::HostTask;

/// Positions in the address list of the tasks made here.
pub mod address {
    /// The network descriptor.
    pub const NETWORK: i16 = 0;
    /// The dependency graph.
    pub const GRAPH: i16 = 1;
    /// The operation list.
    pub const OPERATIONS: i16 = 2;
    /// The surface list.
    pub const SURFACES: i16 = 3;
    /// The lookup tables.
    pub const TABLES: i16 = 4;
    /// The statistics list.
    pub const STATISTICS: i16 = 5;
    /// Regions of interest.
    pub const ROIS: i16 = 6;
    /// Weights, inputs and outputs.
    pub const DATA: i16 = 7;
}

/// One operation.
#[derive(Clone, Debug)]
pub struct Op {
    /// Its entry in the graph.
    pub common: CommonOp,
    /// The parameters of its unit.
    pub operation: desc::Operation,
    /// Its surfaces.
    pub surface: Surface,
}

/// A task.
#[derive(Clone, Debug)]
pub struct Net {
    /// The network descriptor.
    pub network: Network,
    /// The operations.
    pub ops: Vec<Op>,
    /// Lookup tables.
    pub tables: Vec<Lut>,
    /// Bytes of the buffer for data.
    pub data: usize,
    /// Bytes of the list of regions of interest.
    pub rois: Vec<u8>,
}

/// The configuration and precision of a task.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The configuration.
    pub config: &'static Config,
    /// Precision.
    pub precision: Precision,
}

impl Shape {
    /// Bytes of an element.
    pub fn bytes(self) -> u32 {
        if self.precision == Precision::Int8 {
            1
        } else {
            2
        }
    }

    /// A packed feature cube in the data buffer.
    pub fn cube(self, offset: u32, width: u16, height: u16, channel: u16) -> DataCube {
        let line_stride = u32::from(width) * self.config.memory_atomic;
        let surf_stride = line_stride * u32::from(height);
        let surfaces = (u32::from(channel) * self.bytes()).div_ceil(self.config.memory_atomic);
        DataCube {
            mem_type: MemoryType::Mc,
            address: address::DATA,
            offset,
            size: surf_stride * surfaces,
            width,
            height,
            channel,
            line_stride,
            surf_stride,
            plane_stride: 0,
        }
    }

    /// The same cube, passed on the fly.
    pub fn flying(self, width: u16, height: u16, channel: u16) -> DataCube {
        let cube = self.cube(0, width, height, channel);
        DataCube { mem_type: MemoryType::Hw, address: -1, size: 0, ..cube }
    }
}

const ONE: CvtParam = CvtParam { scale: 1, truncate: 0, enable: 1, offset: 0 };

/// A lookup table that rises by one.
pub fn table() -> Lut {
    let mut lut = Lut::default();
    for (value, entry) in lut.linear_only_table.iter_mut().enumerate() {
        *entry = value as i16;
    }
    lut
}

impl Net {
    /// No operations.
    pub fn new() -> Self {
        let network = Network {
            operation_desc_index: address::OPERATIONS,
            surface_desc_index: address::SURFACES,
            dependency_graph_index: address::GRAPH,
            lut_data_index: address::TABLES,
            roi_array_index: -1,
            surface_index: -1,
            stat_list_index: -1,
            op_head: [-1; desc::PROCESSORS],
            num_rois: 1,
            num_addresses: 8,
            ..Network::default()
        };
        Self { network, ops: Vec::new(), tables: Vec::new(), data: 0x10000, rois: Vec::new() }
    }

    /// Adds an operation after the others of its unit. Returns its index.
    pub fn push(&mut self, operation: desc::Operation, surface: Surface) -> i16 {
        let index = self.ops.len() as i16;
        let op_type = operation.op_type();
        let last = self.ops.iter().rposition(|op| op.common.op_type == op_type);
        self.ops.push(Op { common: CommonOp { op_type, ..CommonOp::default() }, operation, surface });
        match last {
            Some(last) => self.edge(last as i16, index, Event::OpProgrammed),
            None => self.network.op_head[op_type as usize] = index,
        }
        self.network.num_operations = self.ops.len() as u16;
        index
    }

    /// Makes `to` wait for an event of `from`.
    pub fn edge(&mut self, from: i16, to: i16, event: Event) {
        let slot = self.ops[to as usize].common.op_type as usize;
        self.ops[from as usize].common.consumers[slot] = Some(Consumer { index: to, event });
        self.ops[to as usize].common.dependency_count += 1;
    }

    /// Makes `child` take the output of `parent` on the fly: the parent waits until the child is enabled.
    pub fn fuse(&mut self, parent: i16, child: i16) {
        self.ops[child as usize].common.fused_parent = Some(Consumer { index: parent, event: Event::OpEnabled });
        self.ops[parent as usize].common.dependency_count += 1;
        self.edge(parent, child, Event::OpProgrammed);
    }

    /// A 3x3 convolution of an 8x8x8 cube at offset 0x1000, followed by SDP, which writes to `out`. Weights are at 0, the bias at
    /// 0x800. Returns the indices of both.
    pub fn convolution(&mut self, shape: Shape, out: u32) -> (i16, i16) {
        let kernel = 3 * 3 * 8 * shape.bytes();
        let surfaces = (8 * shape.bytes()).div_ceil(shape.config.memory_atomic);
        let conv = ConvOp {
            entry_per_slice: buffer::feature_entries(shape.config, surfaces, 8) as u16,
            data_format: DataFormat::Feature,
            fetch_grain: 1,
            batch: 1,
            data_bank: 2,
            weight_bank: 2,
            release: 8,
            input_width_csc: 8,
            input_height_csc: 8,
            input_channel_csc: 8,
            kernel_width_csc: 3,
            kernel_height_csc: 3,
            kernel_channel_csc: 8,
            input_width_cmac: 6,
            input_height_cmac: 6,
            bytes_per_kernel: kernel,
            conv_stride_x: 1,
            conv_stride_y: 1,
            dilation_x: 1,
            dilation_y: 1,
            in_precision: shape.precision,
            out_precision: shape.precision,
            out_cvt: ONE,
            ..ConvOp::default()
        };
        let unit = align::weight_size(shape.config);
        let weights = DataCube { size: (kernel * 8).next_multiple_of(unit), ..shape.cube(0, 3, 3, 8) };
        let surface = ConvSurface {
            weight_data: weights,
            src_data: shape.cube(0x1000, 8, 8, 8),
            dst_data: shape.flying(6, 6, 8),
            ..ConvSurface::default()
        };
        let conv = self.push(desc::Operation::Conv(conv), Surface::Conv(surface));
        let bias = SdpSubUnit {
            enable: true,
            op_type: SdpOperation::Add,
            mode: SdpOperandMode::PerKernel,
            alu_type: nvdla_uapi::reg::values::AluAlgorithm::Sum,
            precision: if shape.precision == Precision::Fp16 { Precision::Fp16 } else { Precision::Int16 },
            ..SdpSubUnit::default()
        };
        let sdp = SdpOp {
            src_precision: shape.precision,
            dst_precision: shape.precision,
            lut_index: -1,
            out_cvt: ONE,
            batch_num: 1,
            x1_op: Some(bias),
            ..SdpOp::default()
        };
        let surface = SdpSurface {
            src_data: shape.flying(6, 6, 8),
            x1_data: shape.cube(0x800, 1, 1, 8),
            dst_data: shape.cube(out, 6, 6, 8),
            ..SdpSurface::default()
        };
        let sdp = self.push(desc::Operation::Sdp(sdp), Surface::Sdp(surface));
        self.fuse(conv, sdp);
        (conv, sdp)
    }

    /// SDP on its own, from 0x2000 to `out`, without sub-units.
    pub fn copy(&mut self, shape: Shape, out: u32) -> i16 {
        let op = SdpOp {
            src_precision: shape.precision,
            dst_precision: shape.precision,
            lut_index: -1,
            out_cvt: ONE,
            batch_num: 1,
            ..SdpOp::default()
        };
        let surface = SdpSurface {
            src_data: shape.cube(0x2000, 6, 6, 8),
            dst_data: shape.cube(out, 6, 6, 8),
            ..SdpSurface::default()
        };
        self.push(desc::Operation::Sdp(op), Surface::Sdp(surface))
    }

    /// Pooling of a 6x6x8 cube at 0x2000 to 3x3x8 at `out`.
    pub fn pooling(&mut self, shape: Shape, out: u32) -> i16 {
        let op = PdpOp {
            split_num: 1,
            pool_mode: PoolingMethod::Max,
            pool_width: 1,
            pool_height: 1,
            stride_x: 2,
            stride_y: 2,
            precision: shape.precision,
            ..PdpOp::default()
        };
        let surface = PdpSurface { src_data: shape.cube(0x2000, 6, 6, 8), dst_data: shape.cube(out, 3, 3, 8) };
        self.push(desc::Operation::Pdp(op), Surface::Pdp(surface))
    }

    /// Normalisation of a 6x6x8 cube at 0x2000 to `out` with table `lut_index`.
    pub fn normalisation(&mut self, shape: Shape, out: u32, lut_index: i16) -> i16 {
        let op = CdpOp {
            in_precision: shape.precision,
            out_precision: shape.precision,
            lut_index,
            in_cvt: ONE,
            out_cvt: ONE,
            local_size: 5,
            ..CdpOp::default()
        };
        let surface = CdpSurface { src_data: shape.cube(0x2000, 6, 6, 8), dst_data: shape.cube(out, 6, 6, 8) };
        self.push(desc::Operation::Cdp(op), Surface::Cdp(surface))
    }

    /// A contraction of a 4x4x128 cube at 0x2000 by 2x2 to 8x8x32 at `out`.
    pub fn contraction(&mut self, shape: Shape, out: u32) -> i16 {
        let op = RubikOp { mode: RubikMode::Contract, precision: shape.precision, stride_x: 2, stride_y: 2 };
        let surface = RubikSurface { src_data: shape.cube(0x2000, 4, 4, 128), dst_data: shape.cube(out, 8, 8, 32) };
        self.push(desc::Operation::Rubik(op), Surface::Rubik(surface))
    }

    /// A BDMA operation of `transfers` transfers of 64 bytes.
    pub fn transfers(&mut self, transfers: u16) -> i16 {
        let one = BdmaTransfer {
            source_address: address::DATA,
            destination_address: address::DATA,
            line_size: 64,
            line_repeat: 1,
            source_line: 64,
            destination_line: 64,
            surface_repeat: 1,
            source_surface: 64,
            destination_surface: 64,
        };
        let mut surface = BdmaSurface { num_transfers: transfers, ..BdmaSurface::default() };
        for transfer in surface.transfers.iter_mut().take(transfers.into()) {
            *transfer = one;
        }
        let op = desc::BdmaOp { num_transfers: transfers };
        self.push(desc::Operation::Bdma(op), Surface::Bdma(surface))
    }

    /// The convolution's descriptors.
    ///
    /// # Panics
    ///
    /// When the operation is another unit's.
    pub fn conv(&mut self, index: i16) -> (&mut ConvOp, &mut ConvSurface) {
        match &mut self.ops[index as usize] {
            Op { operation: desc::Operation::Conv(op), surface: Surface::Conv(surface), .. } => (op, surface),
            _ => panic!("operation {index} is not a convolution"),
        }
    }

    /// SDP's descriptors.
    ///
    /// # Panics
    ///
    /// When the operation is another unit's.
    pub fn sdp(&mut self, index: i16) -> (&mut SdpOp, &mut SdpSurface) {
        match &mut self.ops[index as usize] {
            Op { operation: desc::Operation::Sdp(op), surface: Surface::Sdp(surface), .. } => (op, surface),
            _ => panic!("operation {index} is not SDP's"),
        }
    }

    /// PDP's descriptors.
    ///
    /// # Panics
    ///
    /// When the operation is another unit's.
    pub fn pdp(&mut self, index: i16) -> (&mut PdpOp, &mut PdpSurface) {
        match &mut self.ops[index as usize] {
            Op { operation: desc::Operation::Pdp(op), surface: Surface::Pdp(surface), .. } => (op, surface),
            _ => panic!("operation {index} is not PDP's"),
        }
    }

    /// CDP's descriptors.
    ///
    /// # Panics
    ///
    /// When the operation is another unit's.
    pub fn cdp(&mut self, index: i16) -> (&mut CdpOp, &mut CdpSurface) {
        match &mut self.ops[index as usize] {
            Op { operation: desc::Operation::Cdp(op), surface: Surface::Cdp(surface), .. } => (op, surface),
            _ => panic!("operation {index} is not CDP's"),
        }
    }

    /// Rubik's descriptors.
    ///
    /// # Panics
    ///
    /// When the operation is another unit's.
    pub fn rubik(&mut self, index: i16) -> (&mut RubikOp, &mut RubikSurface) {
        match &mut self.ops[index as usize] {
            Op { operation: desc::Operation::Rubik(op), surface: Surface::Rubik(surface), .. } => (op, surface),
            _ => panic!("operation {index} is not Rubik's"),
        }
    }

    /// BDMA's transfers.
    ///
    /// # Panics
    ///
    /// When the operation is another unit's.
    pub fn bdma(&mut self, index: i16) -> &mut BdmaSurface {
        match &mut self.ops[index as usize].surface {
            Surface::Bdma(surface) => surface,
            _ => panic!("operation {index} is not BDMA's"),
        }
    }

    /// The buffers of the address list.
    ///
    /// # Panics
    ///
    /// Never: the buffers have the descriptors' sizes.
    pub fn buffers(&self) -> Vec<Vec<u8>> {
        let regions = usize::from(self.network.num_rois.max(1));
        let mut lists = [Vec::new(), Vec::new(), Vec::new()];
        for op in std::iter::repeat_n(&self.ops, regions).flatten() {
            let [graph, operations, surfaces] = &mut lists;
            let (mut entry, mut operation, mut surface) =
                ([0; CommonOp::SIZE], [0; desc::Operation::SIZE], [0; Surface::SIZE]);
            op.common.write(&mut entry).unwrap();
            op.operation.write(&mut operation).unwrap();
            op.surface.write(&mut surface).unwrap();
            graph.extend(entry);
            operations.extend(operation);
            surfaces.extend(surface);
        }
        let mut network = vec![0; Network::SIZE];
        self.network.write(&mut network).unwrap();
        let mut tables = vec![0; self.tables.len() * Lut::SIZE];
        for (table, bytes) in self.tables.iter().zip(tables.chunks_exact_mut(Lut::SIZE)) {
            table.write(bytes).unwrap();
        }
        let [graph, operations, surfaces] = lists;
        let statistics = vec![0; self.ops.len() * regions * Stat::SIZE];
        vec![network, graph, operations, surfaces, tables, statistics, self.rois.clone(), vec![0; self.data]]
    }

    /// The task in memory.
    pub fn task(&self) -> HostTask {
        HostTask::from_buffers(self.buffers())
    }

    /// The unit of an operation.
    pub fn unit(&self, index: i16) -> OpType {
        self.ops[index as usize].common.op_type
    }
}

/// A task with one operation of each kind that the configuration has, each of which ends at the end of its buffer.
pub fn every_unit(config: &'static Config, precision: Precision) -> Net {
    let shape = Shape { config, precision };
    let mut net = Net::new();
    let (_, sdp) = net.convolution(shape, 0xf000);
    let pool = net.pooling(shape, 0xf800);
    net.edge(sdp, pool, Event::OpCompleted);
    let copy = net.copy(shape, 0xf000);
    let (op, surface) = net.sdp(copy);
    op.x1_op = Some(SdpSubUnit {
        enable: true,
        op_type: SdpOperation::Both,
        mode: SdpOperandMode::PerPoint,
        alu_type: AluAlgorithm::Sum,
        precision,
        ..SdpSubUnit::default()
    });
    surface.x1_data = shape.cube(0x6000, 6, 6, 8);
    surface.x1_data.line_stride *= 2;
    surface.x1_data.surf_stride *= 2;
    if config.rubik {
        net.tables = vec![table()];
        net.normalisation(shape, 0xf000, 0);
        net.contraction(shape, 0x8000);
        let split = net.contraction(shape, 0x8000);
        let (op, surface) = net.rubik(split);
        op.mode = RubikMode::Split;
        (surface.src_data, surface.dst_data) = (shape.cube(0x2000, 4, 4, 32), shape.cube(0x8000, 4, 4, 32));
        (surface.dst_data.line_stride, surface.dst_data.plane_stride) = (128, 512);
        net.transfers(3);
    }
    net
}

impl Default for Net {
    fn default() -> Self {
        Self::new()
    }
}
