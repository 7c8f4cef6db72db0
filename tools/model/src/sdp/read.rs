// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reads an operation from the registers of SDP and its read DMA. Refuses combinations that the hardware does not
//! define.
//!
//! Source: register manual (SDP, SDP_RDMA), "In-memory data formats" (operands, table 30).

use nvdla_uapi::config::Config;
use nvdla_uapi::layout::feature::{Atoms, Cube};
use nvdla_uapi::layout::operand::{Component, Format, Operands};
use nvdla_uapi::layout::Extents;
use nvdla_uapi::reg::sdp as reg;
use nvdla_uapi::reg::sdp_rdma as rdma_reg;
use nvdla_uapi::reg::values::{AluAlgorithm, OperandMode, OperandSource, OutputDestination, Precision};
use nvdla_uapi::reg::{Field, Register, Tied};

use super::operation::{
    Alu, Converter, Count, DataCube, Destination, Multiplier, OperandOrigin, OperandSurface, Operation, Source, X, Y,
};
use super::registers::{DmaRegisters, XRegisters, BRDMA, ERDMA, NRDMA, X1, X2};
use crate::like::Like;
use crate::lut::sdp::Lookup;
use crate::memory::Stop;
use crate::registers::Registers;
use crate::stream::{Form, Samples, Stream};

/// Refuses a register's value.
fn refuse<T>(unit: &'static str, what: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::unsupported(unit, what))
}

/// The registers and the configuration, which all parts of the reading need.
struct Reader<'r> {
    config: &'r Config,
    like: Like,
    rdma: &'r Registers,
    sdp: &'r Registers,
    width: u32,
    height: u32,
    channels: u32,
    processing: Precision,
    winograd: bool,
}

impl Operation {
    /// The operation that the registers describe. `stream` is the output of CACC, if there is one.
    pub(super) fn new(
        config: &Config,
        like: Like,
        rdma: &Registers,
        sdp: &Registers,
        stream: Option<&Stream>,
    ) -> Result<Self, Stop> {
        let operation = Self::of(config, like, rdma, sdp, stream.map(Stream::form))?;
        if let Some(stream) = stream {
            let length = match &stream.samples {
                Samples::Int(samples) => samples.len(),
                Samples::Float(samples) => samples.len(),
            };
            let needed = operation.view().span(operation.batch);
            if length != needed {
                return refuse("SDP", format!("CACC gives {length} samples, the cube has {needed}"));
            }
        }
        Ok(operation)
    }

    /// As [`Self::new`], for an output of CACC in this form, if there is one.
    pub(super) fn of(
        config: &Config,
        like: Like,
        rdma: &Registers,
        sdp: &Registers,
        stream: Option<Form>,
    ) -> Result<Self, Stop> {
        let reader = Reader {
            config,
            like,
            rdma,
            sdp,
            width: sdp.value(reg::D_DATA_CUBE_WIDTH::WIDTH) + 1,
            height: sdp.value(reg::D_DATA_CUBE_HEIGHT::HEIGHT) + 1,
            channels: sdp.value(reg::D_DATA_CUBE_CHANNEL::CHANNEL) + 1,
            processing: sdp.field(reg::D_DATA_FORMAT::PROC_PRECISION)?,
            winograd: sdp.is_set(reg::D_FEATURE_MODE_CFG::WINOGRAD),
        };
        let output = sdp.field(reg::D_DATA_FORMAT::OUT_PRECISION)?;
        let batch = sdp.value(reg::D_FEATURE_MODE_CFG::BATCH_NUMBER) + 1;
        reader.check_precisions(output, batch)?;

        let x1 = reader.x(&X1, &BRDMA)?;
        let x2 = reader.x(&X2, &NRDMA)?;
        let y = reader.y()?;
        let source = reader.source(stream, batch)?;
        let destination = reader.destination(output, batch, y.as_ref())?;

        let atoms = Atoms::of(config, reader.processing);
        let operation = Self {
            width: reader.width as usize,
            height: reader.height as usize,
            surfaces: atoms.surfaces(reader.channels as usize),
            lanes: atoms.elements(),
            atoms,
            channels: reader.channels as usize,
            batch: batch as usize,
            processing: reader.processing,
            output,
            source,
            destination,
            x1,
            x2,
            y,
            converter: Converter {
                offset: sdp.get(reg::D_CVT_OFFSET) as i32,
                scale: sdp.get(reg::D_CVT_SCALE) as i16,
                shift: sdp.value(reg::D_CVT_SHIFT::CVT_SHIFT),
            },
            nan_to_zero: reader.processing == Precision::Fp16 && sdp.is_set(reg::D_FEATURE_MODE_CFG::NAN_TO_ZERO),
            count: Count {
                lookups: sdp.is_set(reg::D_PERF_ENABLE::PERF_LUT_EN) && y.is_some_and(|y| y.lookup.is_some()),
                saturation: sdp.is_set(reg::D_PERF_ENABLE::PERF_SAT_EN),
                nan_output: sdp.is_set(reg::D_PERF_ENABLE::PERF_NAN_INF_COUNT_EN) && output == Precision::Fp16,
                nan_input: matches!(source, Source::Memory(_))
                    && rdma.is_set(rdma_reg::D_PERF_ENABLE::PERF_NAN_INF_COUNT_EN)
                    && rdma.read().get(rdma_reg::D_FEATURE_MODE_CFG::IN_PRECISION) == Some(Precision::Fp16),
            },
        };
        if let Some(stream) = stream {
            operation.check_stream(stream)?;
        }
        Ok(operation)
    }

    /// The stream must be the cube that the registers describe.
    fn check_stream(&self, stream: Form) -> Result<(), Stop> {
        let expected = (self.width, self.height, self.surfaces, self.lanes, self.batch);
        let given = (stream.width, stream.height, stream.surfaces(), stream.lanes, stream.batch);
        if expected != given {
            return refuse(
                "SDP",
                format!(
                    "the registers describe {}x{} in {} surfaces of {} channels, batch {}; CACC gives {}x{} in {} of {}, batch {}",
                    expected.0, expected.1, expected.2, expected.3, expected.4, given.0, given.1, given.2, given.3, given.4
                ),
            );
        }
        if stream.is_float != (self.processing == Precision::Fp16) {
            return refuse(
                "SDP",
                format!(
                    "D_DATA_FORMAT.PROC_PRECISION is {:?}, but CACC gives {}",
                    self.processing,
                    if stream.is_float { "fp32" } else { "integers" }
                ),
            );
        }
        Ok(())
    }
}

impl Reader<'_> {
    fn extents(&self) -> Extents {
        Extents::new(1, self.channels, self.height, self.width)
    }

    /// Checks table 30, and combinations that the hardware does not have.
    ///
    /// int8 to fp16, which the table calls invalid, is allowed: the reference computes it as int8 to int16 with fp16 values.
    fn check_precisions(&self, output: Precision, batch: u32) -> Result<(), Stop> {
        let name = self.config.name;
        for (field, precision) in [("PROC_PRECISION", self.processing), ("OUT_PRECISION", output)] {
            if !self.config.has_feature_type(precision) {
                return refuse("SDP", format!("D_DATA_FORMAT.{field} is {precision:?}, which {name} does not have"));
            }
        }
        let widens = self.processing == Precision::Int8 && output != Precision::Int8;
        if self.processing != Precision::Int8 && output == Precision::Int8 {
            return refuse(
                "SDP",
                format!("D_DATA_FORMAT.OUT_PRECISION is Int8 with PROC_PRECISION {:?}", self.processing),
            );
        }
        if batch > 1 && !self.config.batch {
            return refuse(
                "SDP",
                format!("D_FEATURE_MODE_CFG.BATCH_NUMBER is {}; {name} has no hardware batch", batch - 1),
            );
        }
        if self.winograd {
            if !self.config.winograd {
                return refuse("SDP", format!("D_FEATURE_MODE_CFG.WINOGRAD is 1; {name} has no Winograd"));
            }
            // Winograd results come in tiles of 4 lines and 2 elements.
            if !self.height.is_multiple_of(4) || !self.width.is_multiple_of(2) {
                return refuse(
                    "SDP",
                    format!(
                        "D_FEATURE_MODE_CFG.WINOGRAD is 1 and the cube {}x{}: the width must be even and the height a multiple of 4",
                        self.width, self.height
                    ),
                );
            }
        }
        if widens && (self.winograd || batch > 1) {
            return refuse(
                "SDP",
                format!(
                    "D_DATA_FORMAT.OUT_PRECISION is {output:?} with PROC_PRECISION Int8, which neither Winograd nor a batch allows"
                ),
            );
        }
        Ok(())
    }

    fn source(&self, stream: Option<Form>, batch: u32) -> Result<Source, Stop> {
        match (self.sdp.is_set(reg::D_FEATURE_MODE_CFG::FLYING_MODE), stream) {
            (true, Some(stream)) => return Ok(Source::Stream { largest: stream.largest }),
            (true, None) => return refuse("SDP", "D_FEATURE_MODE_CFG.FLYING_MODE is ON, and CACC gives nothing"),
            (false, Some(_)) => {
                return refuse("SDP", "D_FEATURE_MODE_CFG.FLYING_MODE is OFF, and CACC gives a cube");
            }
            (false, None) => {}
        }
        if batch > 1 || self.winograd {
            return refuse(
                "SDP",
                format!(
                    "D_FEATURE_MODE_CFG.FLYING_MODE is OFF with BATCH_NUMBER {} and WINOGRAD {}: both need CACC's data",
                    batch - 1,
                    u32::from(self.winograd)
                ),
            );
        }
        if self.rdma.is_set(rdma_reg::D_FEATURE_MODE_CFG::FLYING_MODE) {
            return refuse("SDP_RDMA", "D_FEATURE_MODE_CFG.FLYING_MODE is ON, but SDP reads memory");
        }
        self.check_rdma()?;
        let precision = self.rdma.field(rdma_reg::D_FEATURE_MODE_CFG::IN_PRECISION)?;
        if precision != self.processing && (precision, self.processing) != (Precision::Int16, Precision::Int8) {
            return refuse(
                "SDP_RDMA",
                format!("D_FEATURE_MODE_CFG.IN_PRECISION is {precision:?} with PROC_PRECISION {:?}", self.processing),
            );
        }
        if !self.config.has_feature_type(precision) {
            return refuse(
                "SDP_RDMA",
                format!("D_FEATURE_MODE_CFG.IN_PRECISION is {precision:?}, which {} does not have", self.config.name),
            );
        }
        let layout = self.cube(
            "SDP_RDMA",
            precision,
            self.rdma.get(rdma_reg::D_SRC_LINE_STRIDE),
            self.rdma.get(rdma_reg::D_SRC_SURFACE_STRIDE),
            0,
        )?;
        Ok(Source::Memory(DataCube {
            port: self.rdma.field(rdma_reg::D_SRC_DMA_CFG::SRC_RAM_TYPE)?.into(),
            base: self.rdma.address(rdma_reg::D_SRC_BASE_ADDR_HIGH, rdma_reg::D_SRC_BASE_ADDR_LOW),
            layout,
        }))
    }

    fn destination(&self, output: Precision, batch: u32, y: Option<&Y>) -> Result<Destination, Stop> {
        let destination = self.sdp.field(reg::D_FEATURE_MODE_CFG::OUTPUT_DST)?;
        if y.and_then(|y| y.alu).is_some_and(|alu| alu.algorithm == AluAlgorithm::Eql) {
            if destination == OutputDestination::Pdp || batch > 1 || self.winograd {
                return refuse(
                    "SDP",
                    format!(
                        "D_DP_EW_CFG.EW_ALU_ALGO is EQL with OUTPUT_DST {destination:?}, BATCH_NUMBER {} and WINOGRAD {}",
                        batch - 1,
                        u32::from(self.winograd)
                    ),
                );
            }
            return Ok(Destination::Comparison);
        }
        if destination == OutputDestination::Pdp {
            let widens = self.processing == Precision::Int8 && output != Precision::Int8;
            if batch > 1 || self.winograd || widens {
                return refuse(
                    "SDP",
                    format!(
                        "D_FEATURE_MODE_CFG.OUTPUT_DST is PDP with BATCH_NUMBER {}, WINOGRAD {}, precisions {:?} to {output:?}",
                        batch - 1,
                        u32::from(self.winograd),
                        self.processing
                    ),
                );
            }
            return Ok(Destination::Pdp);
        }
        let layout = self.cube(
            "SDP",
            output,
            self.sdp.get(reg::D_DST_LINE_STRIDE),
            self.sdp.get(reg::D_DST_SURFACE_STRIDE),
            self.sdp.get(reg::D_DST_BATCH_STRIDE),
        )?;
        Ok(Destination::Memory(DataCube {
            port: self.sdp.field(reg::D_DST_DMA_CFG::DST_RAM_TYPE)?.into(),
            base: self.sdp.address(reg::D_DST_BASE_ADDR_HIGH, reg::D_DST_BASE_ADDR_LOW),
            layout,
        }))
    }

    /// The feature cube with these strides. The atoms of a 1x1 cube are adjacent; its strides are ignored.
    fn cube(
        &self,
        unit: &'static str,
        precision: Precision,
        line_stride: u32,
        surface_stride: u32,
        batch_stride: u32,
    ) -> Result<Cube, Stop> {
        let atom = self.config.memory_atomic;
        let surface_stride = if self.width == 1 && self.height == 1 { atom } else { surface_stride };
        Cube::as_programmed(
            self.extents(),
            precision,
            atom,
            line_stride.into(),
            surface_stride.into(),
            batch_stride.into(),
        )
        .or_else(|error| refuse(unit, error.to_string()))
    }

    /// Checks that SDP_RDMA reads the cube that SDP computes.
    fn check_rdma(&self) -> Result<(), Stop> {
        let rdma = self.rdma;
        for (given, name, expected) in [
            (rdma.value(rdma_reg::D_DATA_CUBE_WIDTH::WIDTH), "D_DATA_CUBE_WIDTH", self.width),
            (rdma.value(rdma_reg::D_DATA_CUBE_HEIGHT::HEIGHT), "D_DATA_CUBE_HEIGHT", self.height),
            (rdma.value(rdma_reg::D_DATA_CUBE_CHANNEL::CHANNEL), "D_DATA_CUBE_CHANNEL", self.channels),
        ] {
            let given = given + 1;
            if given != expected {
                return refuse("SDP_RDMA", format!("{name} is {}, SDP's is {}", given - 1, expected - 1));
            }
        }
        let processing = self.rdma.field(rdma_reg::D_FEATURE_MODE_CFG::PROC_PRECISION)?;
        if processing != self.processing {
            return refuse(
                "SDP_RDMA",
                format!("D_FEATURE_MODE_CFG.PROC_PRECISION is {processing:?}, SDP's is {:?}", self.processing),
            );
        }
        Ok(())
    }

    /// The operand surface of a sub-unit that takes `components` from memory.
    fn operands(
        &self,
        dma: &DmaRegisters<impl Tied>,
        components: [Option<Component>; 2],
    ) -> Result<Option<OperandSurface>, Stop> {
        if components == [None; 2] {
            return Ok(None);
        }
        let name = dma.name;
        if self.rdma.is_set(dma.disable) {
            return refuse("SDP_RDMA", format!("{name}_DISABLE is YES, but SDP takes operands from memory"));
        }
        self.check_rdma()?;
        let format = Format {
            mode: self.rdma.field(dma.data_mode)?,
            data_use: self.rdma.field(dma.data_use)?,
            data_size: self.rdma.field(dma.data_size)?,
            processing: self.processing,
            atom: self.config.memory_atomic,
        };
        let winograd = self.rdma.is_set(rdma_reg::D_FEATURE_MODE_CFG::WINOGRAD);
        if format.mode == OperandMode::PerElement && winograd != self.winograd {
            return refuse(
                "SDP_RDMA",
                format!("D_FEATURE_MODE_CFG.WINOGRAD is {}, SDP's is {}", u8::from(winograd), u8::from(self.winograd)),
            );
        }
        // The operands' atoms of a 1x1 cube are also adjacent, and their strides are ignored.
        let surface_stride = if self.width == 1 && self.height == 1 {
            format.bytes_per_atom()
        } else {
            self.rdma.get(dma.surface_stride)
        };
        let layout = Operands::as_programmed(
            self.extents(),
            format,
            self.rdma.get(dma.line_stride).into(),
            surface_stride.into(),
        )
        .or_else(|error| refuse("SDP_RDMA", format!("{name}: {error}")))?;
        for component in components.into_iter().flatten() {
            if layout.component_offset(component, 0, 0, 0).is_none() {
                return refuse(
                    "SDP_RDMA",
                    format!(
                        "{name}_DATA_USE is {:?}, but SDP takes the {component:?} operand from memory",
                        format.data_use
                    ),
                );
            }
        }
        Ok(Some(OperandSurface {
            port: self.rdma.field(dma.ram_type)?.into(),
            base: self.rdma.address(dma.base_high, dma.base_low),
            layout,
        }))
    }

    fn x<C: Tied, A: Tied, M: Tied>(
        &self,
        registers: &XRegisters<C, A, M>,
        dma: &DmaRegisters<impl Tied>,
    ) -> Result<Option<X>, Stop> {
        let sdp = self.sdp;
        if sdp.is_set(registers.bypass) {
            return Ok(None);
        }
        let mut components = [None; 2];
        let alu = if sdp.is_set(registers.alu_bypass) {
            None
        } else {
            let algorithm = sdp.field(registers.alu_algorithm)?;
            if algorithm == AluAlgorithm::Eql {
                let name = registers.name;
                return refuse("SDP", format!("D_DP_{name}_CFG.{name}_ALU_ALGO is 3, which only EW has"));
            }
            let value = sdp.get(registers.alu_value) as i16;
            Some(Alu {
                algorithm,
                operand: operand(sdp, registers.alu_source, value.into(), || {
                    components[0] = Some(Component::Alu);
                })?,
            })
        };
        let multiplier = if sdp.is_set(registers.mul_bypass) {
            None
        } else {
            let value = sdp.get(registers.mul_value) as i16;
            Some(Multiplier {
                operand: operand(sdp, registers.mul_source, value.into(), || {
                    components[1] = Some(Component::Mul);
                })?,
                prelu: sdp.is_set(registers.mul_prelu),
            })
        };
        Ok(Some(X {
            alu,
            alu_shift: sdp.value(registers.alu_shift),
            multiplier,
            // The field has eight bits, the shifter six.
            shift: sdp.value(registers.mul_shift) & 0x3f,
            relu: !sdp.is_set(registers.relu_bypass),
            operands: self.operands(dma, components)?,
        }))
    }

    fn y(&self) -> Result<Option<Y>, Stop> {
        let sdp = self.sdp;
        // The RTL of a configuration without the sub-unit passes the data on.
        if sdp.is_set(reg::D_DP_EW_CFG::EW_BYPASS) || (!self.config.sdp_ew && self.like == Like::Rtl) {
            return Ok(None);
        }
        let mut components = [None; 2];
        let multiplier = if sdp.is_set(reg::D_DP_EW_CFG::EW_MUL_BYPASS) {
            None
        } else {
            let value = sdp.get(reg::D_DP_EW_MUL_SRC_VALUE) as i32;
            Some(Multiplier {
                operand: operand(sdp, reg::D_DP_EW_MUL_CFG::EW_MUL_SRC, value, || {
                    components[0] = Some(Component::Mul);
                })?,
                prelu: sdp.is_set(reg::D_DP_EW_CFG::EW_MUL_PRELU),
            })
        };
        let alu = if sdp.is_set(reg::D_DP_EW_CFG::EW_ALU_BYPASS) {
            None
        } else {
            let value = sdp.get(reg::D_DP_EW_ALU_SRC_VALUE) as i32;
            Some(Alu {
                algorithm: sdp.field(reg::D_DP_EW_CFG::EW_ALU_ALGO)?,
                operand: operand(sdp, reg::D_DP_EW_ALU_CFG::EW_ALU_SRC, value, || {
                    components[1] = Some(Component::Alu);
                })?,
            })
        };
        let converter = |bypass: bool, offset: Register, scale: Register, shift: u32| {
            (!bypass).then(|| Converter { offset: sdp.get(offset) as i32, scale: sdp.get(scale) as i16, shift })
        };
        Ok(Some(Y {
            multiplier,
            multiplier_converter: converter(
                sdp.is_set(reg::D_DP_EW_MUL_CFG::EW_MUL_CVT_BYPASS),
                reg::D_DP_EW_MUL_CVT_OFFSET_VALUE,
                reg::D_DP_EW_MUL_CVT_SCALE_VALUE,
                sdp.value(reg::D_DP_EW_MUL_CVT_TRUNCATE_VALUE::EW_MUL_CVT_TRUNCATE),
            ),
            shift: sdp.value(reg::D_DP_EW_TRUNCATE_VALUE::EW_TRUNCATE),
            alu,
            alu_converter: converter(
                sdp.is_set(reg::D_DP_EW_ALU_CFG::EW_ALU_CVT_BYPASS),
                reg::D_DP_EW_ALU_CVT_OFFSET_VALUE,
                reg::D_DP_EW_ALU_CVT_SCALE_VALUE,
                sdp.value(reg::D_DP_EW_ALU_CVT_TRUNCATE_VALUE::EW_ALU_CVT_TRUNCATE),
            ),
            lookup: if sdp.is_set(reg::D_DP_EW_CFG::EW_LUT_BYPASS) { None } else { Some(Lookup::new(sdp, self.like)?) },
            operands: self.operands(&ERDMA, components)?,
        }))
    }
}

/// The source of an operand. Calls `from_memory` if it is memory.
fn operand<R: Tied>(
    sdp: &Registers,
    source: Field<OperandSource, R>,
    value: i32,
    from_memory: impl FnOnce(),
) -> Result<OperandOrigin, Stop> {
    Ok(match sdp.field(source)? {
        OperandSource::Reg => OperandOrigin::Register(value),
        OperandSource::Mem => {
            from_memory();
            OperandOrigin::Memory
        }
    })
}
