// SPDX-License-Identifier: MIT OR Apache-2.0

//! The estimate in the trace event format, which Perfetto and Chrome read: one track per unit, times in microseconds.

use super::rows::Profile;
use nvdla_uapi::desc::OpType;
use std::fmt::Write as _;

/// Every track has a name; the order is that of the processors.
pub(super) fn json(profile: &Profile) -> String {
    let mut events = Vec::new();
    for unit in OpType::ALL {
        events.push(format!(
            r#"{{"ph":"M","pid":1,"tid":{},"name":"thread_name","args":{{"name":"{unit}"}}}}"#,
            *unit as u32 + 1
        ));
    }
    events.push(format!(
        r#"{{"ph":"M","pid":1,"name":"process_name","args":{{"name":"{} (estimate)"}}}}"#,
        profile.config.name
    ));
    let microseconds = |cycles: u64| cycles as f64 / profile.conditions.clock;
    for row in &profile.rows {
        // The names of units and shapes need no escapes in JSON.
        let mut event = String::new();
        let _ = write!(
            event,
            r#"{{"ph":"X","pid":1,"tid":{},"name":"{} {}","cat":"operation","ts":{:.3},"dur":{:.3},"#,
            row.unit as u32 + 1,
            row.unit,
            row.operation,
            microseconds(row.start),
            microseconds(row.cycles)
        );
        let _ = write!(
            event,
            r#""args":{{"task":{},"layer":{},"shape":"{}","macs":{},"dram bytes":{},"sram bytes":{},"cycles":{},"compute cycles":{},"limited by":"{}"}}}}"#,
            row.task,
            serde_json::json!(row.layer),
            row.shape,
            row.macs,
            row.bytes.dram,
            row.bytes.sram,
            row.cycles,
            row.compute,
            row.limit
        );
        events.push(event);
    }
    format!("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", events.join(",\n"))
}
