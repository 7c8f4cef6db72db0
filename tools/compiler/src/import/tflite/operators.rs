// SPDX-License-Identifier: MIT OR Apache-2.0

//! The names of operators, and which of them are read.

/// The operators of the schema (`BuiltinOperator`), in the order of their codes.
const BUILTIN: &str = "\
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR \
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC \
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH \
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER \
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE \
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM \
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE \
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK \
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL \
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL \
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND \
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM \
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS \
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE \
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU \
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 \
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT";

/// The operators that are read. The last is MediaPipe's.
const READ: &str = "\
    ABS ADD ADD_N AVERAGE_POOL_2D BATCH_MATMUL BATCH_TO_SPACE_ND BROADCAST_TO CAST CEIL CONCATENATION CONV_2D COS \
    DENSIFY DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE DIV ELU EQUAL EXP EXPAND_DIMS FAKE_QUANT FILL FLOOR FLOOR_DIV \
    FULLY_CONNECTED GATHER GELU GREATER GREATER_EQUAL HARD_SWISH LEAKY_RELU LESS LESS_EQUAL \
    LOCAL_RESPONSE_NORMALIZATION LOG LOGICAL_AND LOGICAL_NOT LOGICAL_OR LOGISTIC LOG_SOFTMAX MAXIMUM MAX_POOL_2D MEAN \
    MINIMUM MIRROR_PAD MUL NEG NOT_EQUAL PACK PAD PADV2 POW PRELU QUANTIZE REDUCE_MAX REDUCE_MIN RELU RELU6 \
    RELU_0_TO_1 RELU_N1_TO_1 RESHAPE RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR ROUND RSQRT SELECT SELECT_V2 SHAPE SIN \
    SLICE SOFTMAX SPACE_TO_BATCH_ND SPACE_TO_DEPTH SPLIT SPLIT_V SQRT SQUARE SQUARED_DIFFERENCE SQUEEZE STRIDED_SLICE \
    SUB SUM TANH TILE TRANSPOSE TRANSPOSE_CONV UNPACK ZEROS_LIKE Convolution2DTransposeBias";

/// The name of an operator code.
pub(super) fn name(code: i32) -> Option<&'static str> {
    usize::try_from(code).ok().and_then(|code| BUILTIN.split(' ').nth(code))
}

/// Whether an operator is read.
pub(super) fn is_known(name: &str) -> bool {
    READ.split(' ').any(|known| known == name)
}

/// Whether an operator only moves elements, so that its output needs no scale of its own.
pub(super) fn keeps_integers(name: &str) -> bool {
    const KEEPING: &str =
        "DEPTH_TO_SPACE DEQUANTIZE EXPAND_DIMS GATHER MIRROR_PAD PAD QUANTIZE RESHAPE SLICE SPACE_TO_DEPTH \
        SPLIT SPLIT_V SQUEEZE STRIDED_SLICE TRANSPOSE UNPACK";
    KEEPING.split(' ').any(|keeping| keeping == name)
}

/// Whether the values of an operator's output are within those of its inputs, or in a range of its own.
pub(super) fn stays_within(name: &str) -> bool {
    const WITHIN: &str = "AVERAGE_POOL_2D BROADCAST_TO CONCATENATION MAX_POOL_2D MEAN PACK REDUCE_MAX REDUCE_MIN \
        RESIZE_BILINEAR RESIZE_NEAREST_NEIGHBOR TILE";
    WITHIN.split(' ').any(|within| within == name) || has_range(name)
}

/// Whether an operator has a range of its own, for which TFLite prescribes the output's scale.
pub(super) fn has_range(name: &str) -> bool {
    matches!(name, "LOGISTIC" | "SOFTMAX" | "TANH")
}

/// The slot of the fused activation in an operator's options.
pub(super) fn activation(name: &str) -> Option<usize> {
    match name {
        "ADD" | "DIV" | "FULLY_CONNECTED" | "MUL" | "SUB" => Some(0),
        "CONCATENATION" => Some(1),
        "CONV_2D" | "TRANSPOSE_CONV" => Some(3),
        "DEPTHWISE_CONV_2D" => Some(4),
        "AVERAGE_POOL_2D" | "MAX_POOL_2D" => Some(5),
        _ => None,
    }
}

/// Why an operator is not read.
pub(super) fn why_not(name: &str) -> String {
    match name {
        "L2_NORMALIZATION" | "L2_POOL_2D" => {
            "it divides by a statistic of the activations, for which NVDLA has no unit".to_owned()
        }
        "LSTM"
        | "RNN"
        | "SVDF"
        | "UNIDIRECTIONAL_SEQUENCE_LSTM"
        | "UNIDIRECTIONAL_SEQUENCE_RNN"
        | "BIDIRECTIONAL_SEQUENCE_LSTM"
        | "BIDIRECTIONAL_SEQUENCE_RNN"
        | "CALL"
        | "CALL_ONCE"
        | "IF"
        | "WHILE"
        | "VAR_HANDLE"
        | "READ_VARIABLE"
        | "ASSIGN_VARIABLE" => "recurrence and control flow are not supported".to_owned(),
        "ARG_MAX"
        | "ARG_MIN"
        | "TOPK_V2"
        | "NON_MAX_SUPPRESSION_V4"
        | "NON_MAX_SUPPRESSION_V5"
        | "WHERE"
        | "TFLite_Detection_PostProcess"
        | "MaxPoolingWithArgmax2D" => {
            "NVDLA computes no indices; leave it to the application, and name the tensor before it with --outputs"
                .to_owned()
        }
        _ => "the operator is not supported".to_owned(),
    }
}
