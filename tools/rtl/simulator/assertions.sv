// SPDX-License-Identifier: MIT OR Apache-2.0

// The assertions that NVDLA's Verilog instantiates (`ASSERT_ON`), for a simulator with two states. Each calls the harness with
// its message, which the build has prefixed with file and line. Parameters and ports are those that the Verilog uses.

package nvdla_assertions;
  import "DPI-C" function void nvdla_assertion(input string what);
endpackage

module nv_assert_never #(parameter severity_level = 0, options = 0, parameter string msg = "") (
    input clk, reset_, test_expr);
  always @(posedge clk) if (reset_ && test_expr) nvdla_assertions::nvdla_assertion(msg);
endmodule

module nv_assert_always #(parameter severity_level = 0, options = 0, parameter string msg = "") (
    input clk, reset_, test_expr);
  always @(posedge clk) if (reset_ && !test_expr) nvdla_assertions::nvdla_assertion(msg);
endmodule

module nv_assert_one_hot #(parameter severity_level = 0, width = 32, options = 0, parameter string msg = "") (
    input clk, reset_, input [width-1:0] test_expr);
  always @(posedge clk) if (reset_ && $countones(test_expr) != 1) nvdla_assertions::nvdla_assertion(msg);
endmodule

module nv_assert_zero_one_hot #(parameter severity_level = 0, width = 32, options = 0, parameter string msg = "") (
    input clk, reset_, input [width-1:0] test_expr);
  always @(posedge clk) if (reset_ && $countones(test_expr) > 1) nvdla_assertions::nvdla_assertion(msg);
endmodule

// `test_expr` keeps its value from the cycle of `start_event` to that of `end_event`.
module nv_assert_hold_throughout_event_interval #(
    parameter severity_level = 0, width = 1, options = 0, parameter string msg = "") (
    input clk, reset_, start_event, input [width-1:0] test_expr, input end_event);
  reg open;
  reg [width-1:0] held;
  always @(posedge clk) begin
    held <= test_expr;
    open <= reset_ && (open ? !end_event : start_event);
    if (reset_ && open && test_expr != held) nvdla_assertions::nvdla_assertion(msg);
  end
endmodule

// `vld` takes a credit, `credit` returns one.
module nv_assert_vld_credit_max #(
    parameter severity_level = 0, init_credits = 1, credits_max = 65, options = 0, parameter string msg = "") (
    input clk, reset_, vld, credit);
  reg [31:0] credits;
  always @(posedge clk) begin
    credits <= reset_ ? credits + 32'(credit) - 32'(vld) : init_credits;
    if (reset_ && vld && !credit && credits == 0) nvdla_assertions::nvdla_assertion(msg);
  end
endmodule

module nv_assert_fifo #(
    parameter severity_level = 0, depth = 7, initial_cnt = 0, options = 0, parameter string msg = "") (
    input clk, reset_, push, pop);
  reg [31:0] count;
  always @(posedge clk) begin
    count <= reset_ ? count + 32'(push) - 32'(pop) : initial_cnt;
    if (reset_ && (push && !pop && count == depth || pop && !push && count == 0))
      nvdla_assertions::nvdla_assertion(msg);
  end
endmodule

// `test_expr` is true `num_cks` cycles after `start_event`, and with `only_if` at no other time.
module nv_assert_at_time_interval #(
    parameter severity_level = 0, num_cks = 1, check_overlapping = 1, only_if = 0, options = 0, parameter string msg = "") (
    input clk, reset_, start_event, test_expr);
  reg [num_cks-1:0] started;
  always @(posedge clk) begin
    started <= reset_ ? num_cks'({started, start_event}) : '0;
    if (reset_ && (started[num_cks-1] && !test_expr || only_if != 0 && !started[num_cks-1] && test_expr))
      nvdla_assertions::nvdla_assertion(msg);
  end
endmodule

// Unknown values do not exist in two states.
module nv_assert_no_x #(parameter severity_level = 0, width = 1, options = 0, parameter string msg = "") (
    input clk, reset_, start_event, input [width-1:0] test_expr);
endmodule
