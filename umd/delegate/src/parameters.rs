// SPDX-License-Identifier: MIT OR Apache-2.0

//! The options of operators: the interpreter's structures as slots of the schema's tables.
//!
//! Source of the facts: `core/c/builtin_op_data.h` of TensorFlow Lite for the structures, and its schema for the slots.

use std::ffi::c_void;

use nvdla_compiler::import::tflite::file::Slot;

use crate::context::field;

/// How a field becomes a slot.
#[derive(Clone, Copy)]
enum Field {
    /// A number of four bytes, or an enumeration with the schema's values.
    Int,
    /// A truth value.
    Flag,
    /// A real number.
    Float,
    /// An enumeration with 0 for an unknown value, before the schema's values.
    Next,
    /// Up to eight numbers, and their count.
    List,
}
use Field::{Flag, Float, Int, List, Next};

/// The fields of an operator's options: place in the structure, slot, and kind.
fn fields(operator: &str, version: i32) -> &'static [(usize, usize, Field)] {
    match operator {
        "ADD" | "SUB" | "MUL" | "DIV" | "DEPTH_TO_SPACE" | "SPACE_TO_DEPTH" => &[(0, 0, Int)],
        "AVERAGE_POOL_2D" | "MAX_POOL_2D" | "CONV_2D" => {
            &[(0, 0, Next), (4, 1, Int), (8, 2, Int), (12, 3, Int), (16, 4, Int), (20, 5, Int)]
        }
        "BATCH_MATMUL" | "RESIZE_NEAREST_NEIGHBOR" => &[(0, 0, Flag), (1, 1, Flag)],
        "CONCATENATION" | "GATHER" | "PACK" | "UNPACK" => &[(0, 0, Int), (4, 1, Int)],
        "DEPTHWISE_CONV_2D" => {
            &[(0, 0, Next), (4, 1, Int), (8, 2, Int), (12, 3, Int), (16, 4, Int), (20, 5, Int), (24, 6, Int)]
        }
        "FAKE_QUANT" => &[(0, 0, Float), (4, 1, Float)],
        "FULLY_CONNECTED" => &[(0, 0, Int), (4, 1, Int), (8, 2, Flag)],
        "GELU" | "MEAN" | "REDUCE_MAX" | "REDUCE_MIN" | "SUM" => &[(0, 0, Flag)],
        "LEAKY_RELU" | "SOFTMAX" => &[(0, 0, Float)],
        "LOCAL_RESPONSE_NORMALIZATION" => &[(0, 0, Int), (4, 1, Float), (8, 2, Float), (12, 3, Float)],
        "MIRROR_PAD" => &[(0, 0, Next)],
        "RESHAPE" | "SQUEEZE" => &[(0, 0, List)],
        "RESIZE_BILINEAR" => &[(0, 2, Flag), (1, 3, Flag)],
        "STRIDED_SLICE" if version >= 8 => {
            &[(0, 0, Int), (4, 1, Int), (8, 2, Int), (12, 3, Int), (16, 4, Int), (20, 5, Flag)]
        }
        "STRIDED_SLICE" => &[(0, 0, Int), (4, 1, Int), (8, 2, Int), (12, 3, Int), (16, 4, Int)],
        // An older version of the operator has no activation.
        "TRANSPOSE_CONV" if version >= 4 => &[(0, 0, Next), (4, 1, Int), (8, 2, Int), (12, 3, Int)],
        "TRANSPOSE_CONV" => &[(0, 0, Next), (4, 1, Int), (8, 2, Int)],
        _ => &[],
    }
}

/// The slots of an operator's options.
///
/// # Safety
///
/// The options are null, or the interpreter's for that operator.
pub(crate) unsafe fn slots(operator: &str, version: i32, options: *const c_void) -> Vec<(usize, Slot)> {
    if options.is_null() {
        return Vec::new();
    }
    // SAFETY: the caller's; the structure has these fields.
    let value = |offset: usize, field_kind: Field| unsafe {
        match field_kind {
            Int => Slot::Int(field(options, offset)),
            Flag => Slot::Int(i32::from(field::<u8>(options, offset) != 0)),
            Float => Slot::Float(field(options, offset)),
            Next => Slot::Int(field::<i32>(options, offset).wrapping_sub(1)),
            List => {
                let values: [i32; 8] = field(options, offset);
                let count: i32 = field(options, offset + size_of_val(&values));
                Slot::Ints(values.into_iter().take(usize::try_from(count).unwrap_or(0)).collect())
            }
        }
    };
    fields(operator, version).iter().map(|&(offset, slot, kind)| (slot, value(offset, kind))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerations_and_lists_are_those_of_the_schema() {
        // Padding VALID, strides 2 and 3, RELU6, dilations 4 and 5.
        let convolution = [2i32, 2, 3, 3, 4, 5];
        // SAFETY: the structure has these fields.
        let slots_of = |name, data: &[i32]| unsafe { slots(name, 1, data.as_ptr().cast()) };
        let numbers = [1, 2, 3, 3, 4, 5].map(Slot::Int);
        assert_eq!(slots_of("CONV_2D", &convolution), numbers.into_iter().enumerate().collect::<Vec<_>>());
        assert_eq!(
            slots_of("RESHAPE", &[1, -1, 7, 0, 0, 0, 0, 0, 2]),
            [(0, Slot::Ints(vec![1, -1]))],
            "two numbers of eight"
        );
        // SAFETY: nothing is read.
        assert!(unsafe { slots("CONV_2D", 1, std::ptr::null()) }.is_empty());
    }
}
