// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Which rule of which document a layout breaks, and with which value.

use core::fmt;

/// A broken rule, the value that breaks it, and what the rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error {
    /// The rule.
    pub rule: Rule,
    /// The value that was given.
    pub value: u64,
    /// The value that it is compared with: a divisor, a minimum, a maximum, or the one valid value (see
    /// [`Rule::relation`]).
    pub limit: u64,
}

impl Error {
    pub(super) const fn new(rule: Rule, value: u64, limit: u64) -> Self {
        Self { rule, value, limit }
    }

    /// `Ok` where `value` is a multiple of `divisor` (not zero).
    #[allow(clippy::manual_is_multiple_of)] // the kernel's oldest compiler does not have it
    pub(super) const fn unless_multiple(rule: Rule, value: u64, divisor: u64) -> Result<(), Self> {
        if value % divisor == 0 {
            Ok(())
        } else {
            Err(Self::new(rule, value, divisor))
        }
    }

    /// `Ok` where `value` is at least `minimum`.
    pub(super) const fn unless_at_least(rule: Rule, value: u64, minimum: u64) -> Result<(), Self> {
        if value >= minimum {
            Ok(())
        } else {
            Err(Self::new(rule, value, minimum))
        }
    }

    /// `Ok` where `value` is at most `maximum`.
    pub(super) const fn unless_at_most(rule: Rule, value: u64, maximum: u64) -> Result<(), Self> {
        if value <= maximum {
            Ok(())
        } else {
            Err(Self::new(rule, value, maximum))
        }
    }
}

/// How a value must compare with its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// It must be a multiple of the limit.
    MultipleOf,
    /// It must be the limit or more.
    AtLeast,
    /// It must be the limit or less.
    AtMost,
    /// It must be the limit.
    Exactly,
    /// It must be one of the named values; the limit says nothing.
    OneOf(&'static str),
}

/// A document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// NVDLA's "In-memory data formats".
    Nvdla,
    /// "Tensor layouts in local memory" of a TPU.
    Tpu,
    /// What a caller passes.
    Caller,
}

impl fmt::Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nvdla => "In-memory data formats",
            Self::Tpu => "TPU local memory",
            Self::Caller => "caller",
        })
    }
}

macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident: $document:ident, $section:literal, $subject:literal, $relation:expr;)*) => {
        /// The rules that layouts check.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule { $($(#[$doc])* $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The document that holds the rule.
            pub const fn document(self) -> Document {
                match self { $(Self::$name => Document::$document,)* }
            }

            /// The document's section.
            pub const fn section(self) -> &'static str {
                match self { $(Self::$name => $section,)* }
            }

            /// What the rule is about.
            pub const fn subject(self) -> &'static str {
                match self { $(Self::$name => $subject,)* }
            }

            /// What must hold.
            pub const fn relation(self) -> Relation {
                #[allow(clippy::enum_glob_use)]
                use Relation::*;
                match self { $(Self::$name => $relation,)* }
            }
        }
    };
}

rules! {
    /// Every extent is at least one.
    Extents: Nvdla, "Feature Data Format", "each of width, height, channels and count", AtLeast;
    /// All offsets fit 64 bits.
    Size: Caller, "size", "the layout's size in bytes", AtMost;
    /// The slice's element type has the layout's size.
    ElementBytes: Caller, "slices", "bytes of a slice's element", Exactly;
    /// The plain slice holds exactly the tensor.
    PlainLength: Caller, "slices", "elements of the plain slice", Exactly;
    /// The memory slice holds the layout.
    MemoryLength: Caller, "slices", "bytes of the memory slice", AtLeast;
    /// A feature cube's atom is 8, 16 or 32 bytes (32 in the document; smaller configurations have smaller ones).
    Atom: Nvdla, "Feature Data Format", "bytes of an atom", OneOf("8, 16, 32");
    /// Line stride of a feature cube.
    FeatureLineStride: Nvdla, "Feature Data Format; table 35", "the line stride of feature data", MultipleOf;
    /// Surface stride of a feature cube.
    FeatureSurfaceStride: Nvdla, "Feature Data Format; table 35", "the surface stride of feature data", MultipleOf;
    /// Cube stride of a feature cube.
    FeatureCubeStride: Nvdla, "table 35", "the cube stride of feature data", MultipleOf;
    /// Atoms of a line lie compactly, so a line takes width x atom bytes.
    FeatureLineOverlap: Nvdla, "Feature Data Format", "the line stride of feature data", AtLeast;
    /// Surfaces do not overlap.
    FeatureSurfaceOverlap: Nvdla, "Feature Data Format", "the surface stride of feature data", AtLeast;
    /// Cubes of a batch do not overlap.
    FeatureCubeOverlap: Nvdla, "Feature Data Format", "the cube stride of feature data", AtLeast;
    /// Pixel line stride.
    PixelLineStride: Nvdla, "Pixel Format; table 35", "the line stride of pitch linear pixels", MultipleOf;
    /// A pixel line fits its stride.
    PixelLineOverlap: Nvdla, "Pixel Format", "the line stride of pitch linear pixels", AtLeast;
    /// The x offset is in the format's range.
    PixelXOffset: Nvdla, "table 33", "the x offset in pixels", AtMost;
    /// RGB can be written only to formats with three channels or more.
    PixelRgb: Nvdla, "table 33", "the channels of a format that RGB is converted to", AtLeast;
    /// Channels that a multiply-accumulate step takes.
    AtomicC: Nvdla, "Basic Weight for Direct Convolution", "channels of a small cube (atomic-C)", AtLeast;
    /// Kernels that a multiply-accumulate step computes.
    AtomicK: Nvdla, "Basic Weight for Direct Convolution", "kernels of a group (atomic-K)", AtLeast;
    /// Weights end on this alignment.
    WeightAlignment: Nvdla, "Basic Weight for Direct Convolution", "the alignment of mapped weights", AtLeast;
    /// Post-extension combines 1, 2 or 4 lines.
    PostExtension: Nvdla, "Weight Channel Post-extension", "lines combined by post-extension", OneOf("1, 2, 4");
    /// Post-extension by 2 needs C <= 32 (half of atomic-C), by 4 C <= 16 (a quarter).
    PostExtensionChannels: Nvdla, "Weight Channel Post-extension", "channels after pre-extension", AtMost;
    /// A Winograd kernel is 3x3 after channel extension.
    WinogradKernel: Nvdla, "Basic Weight for Winograd Convolution", "a side of the channel-extended kernel", Exactly;
    /// A convolution's stride is at least one.
    Stride: Nvdla, "Basic Weight for Winograd Convolution", "a stride", AtLeast;
    /// The mask surface holds a bit for each element.
    WmbLength: Nvdla, "Sparse Compression option", "bytes of the WMB surface", AtLeast;
    /// The group-size surface holds 32 bits for each group.
    WgsLength: Nvdla, "Sparse Compression option", "bytes of the WGS surface", AtLeast;
    /// The compressed surface holds the elements that are not zero.
    CompressedLength: Nvdla, "Sparse Compression option", "bytes of the compressed weight surface", AtLeast;
    /// The group sizes agree with the mask.
    WgsValue: Nvdla, "Sparse Compression option", "the remaining bytes of a kernel group (WGS)", Exactly;
    /// Operand line stride.
    OperandLineStride: Nvdla, "table 35", "the line stride of operands", MultipleOf;
    /// Operand surface stride.
    OperandSurfaceStride: Nvdla, "table 35", "the surface stride of operands", MultipleOf;
    /// Operand lines do not overlap.
    OperandLineOverlap: Nvdla, "Element-Wise Data Format", "the line stride of operands", AtLeast;
    /// Operand surfaces do not overlap.
    OperandSurfaceOverlap: Nvdla, "Element-Wise Data Format", "the surface stride of operands", AtLeast;
    /// fp16 operands take two bytes.
    OperandFp16: Nvdla, "PReLU Data Format", "bytes of an fp16 operand", Exactly;
    /// PReLU is per channel only, batch normalisation per channel or layer, element-wise per element.
    OperandMode: Nvdla, "PReLU, Batch Normalization and Element-Wise Data Format", "the operand's mode", OneOf("those of its use case");
    /// PReLU feeds the multiplier only, bias the ALU.
    OperandComponents: Nvdla, "Alignment of Start Address and Stride (ComponentsPerElement)", "components of an operand", Exactly;
    /// Start address of a surface.
    StartAddress: Nvdla, "table 35", "the start address", MultipleOf;
    /// Line stride of a surface.
    LineStride: Nvdla, "table 35", "the line stride", MultipleOf;
    /// Surface stride of a surface.
    SurfaceStride: Nvdla, "table 35", "the surface stride", MultipleOf;
    /// Plane or cube stride.
    CubeStride: Nvdla, "table 35", "the planar or cube stride", MultipleOf;
    /// Bytes of a surface.
    DataSize: Nvdla, "table 35", "the data size", MultipleOf;
    /// An address lies in local memory.
    TpuAddress: Tpu, "Address of Tensor in Local Memory", "the address", AtMost;
    /// There is at least one NPU with memory.
    TpuMemory: Tpu, "Address of Tensor in Local Memory", "NPUs and bytes of local memory", AtLeast;
    /// The 128-byte aligned layout starts on 128 bytes.
    TpuAligned: Tpu, "128-Byte Aligned Layout", "the address", MultipleOf;
    /// The compact layout starts on 4 bytes.
    TpuCompact: Tpu, "Compact Layout", "the address", MultipleOf;
    /// A matrix's W is in 1..=M.
    TpuMatrixWidth: Tpu, "Matrix Layout", "W", AtMost;
    /// Element sizes.
    TpuElement: Tpu, "128-Byte Aligned Layout", "bytes of an element", OneOf("1, 2, 4, 8");
    /// The tensor ends inside each NPU's memory.
    TpuCapacity: Tpu, "Address of Tensor in Local Memory", "bytes of an NPU's memory that the tensor reaches", AtMost;
    /// Strides keep elements apart.
    TpuOverlap: Tpu, "Strides in Local Memory", "a stride in elements", AtLeast;
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rule, value, limit } = *self;
        write!(f, "{} is {value} ({value:#x}), must be ", rule.subject())?;
        match rule.relation() {
            Relation::MultipleOf => write!(f, "a multiple of {limit}")?,
            Relation::AtLeast => write!(f, "at least {limit}")?,
            Relation::AtMost => write!(f, "at most {limit}")?,
            Relation::Exactly => write!(f, "{limit}")?,
            Relation::OneOf(values) => write!(f, "one of {values}")?,
        }
        match rule.document() {
            Document::Caller => Ok(()),
            document => write!(f, " ({document}, {})", rule.section()),
        }
    }
}

impl core::error::Error for Error {}
