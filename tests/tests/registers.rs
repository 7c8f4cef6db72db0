// SPDX-License-Identifier: MIT OR Apache-2.0

//! The register map and the configurations are those of the hardware project's specification.

use std::fs;

use nvdla_tests::reference;
use nvdla_uapi::config::Config;
use nvdla_uapi::reg::values::Precision;
use nvdla_uapi::reg::{Block, Family};
use serde_json::Value;

/// A file of the reference data; `None` where there is none and none is needed.
fn load(name: &str) -> Option<Value> {
    let path = reference::folder()?.join(name);
    Some(serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
}

/// Every block, register and field, in its place. GEC is left out: no driver and no model uses it.
#[test]
fn the_register_map_is_the_specification() {
    let Some(map) = load("registers.json") else { return };
    for (family, name) in [(Family::NvFull, "nv_full"), (Family::NvSmall, "nv_small")] {
        for (block, base) in map["base"][name].as_object().unwrap() {
            if block != "GEC" {
                let found = Block::ALL.into_iter().find(|found| found.name() == block).unwrap();
                assert_eq!(found.base(family).map(u64::from), base.as_u64(), "{block} of {name}");
            }
        }
    }
    let mut fields = 0;
    for block in Block::ALL {
        let registers = map["blocks"][block.name()].as_object().unwrap();
        assert_eq!(block.registers().len(), registers.len(), "{}", block.name());
        for described in block.registers() {
            let name = format!("{}.{}", block.name(), described.name);
            let expected = &registers[described.name];
            assert_eq!(u64::from(described.register.offset), expected["offset"].as_u64().unwrap(), "{name}");
            assert_eq!(described.fields.len(), expected["fields"].as_object().unwrap().len(), "{name}");
            for (field, lsb, width) in described.fields {
                let expected = &expected["fields"][field];
                assert_eq!(Some(u64::from(*lsb)), expected["lsb"].as_u64(), "{name}.{field}");
                assert_eq!(Some(u64::from(*width)), expected["width"].as_u64(), "{name}.{field}");
                if let Some(reset) = expected["reset"].as_u64() {
                    let bits = u64::from(described.register.reset >> lsb) & ((1 << width) - 1);
                    assert_eq!(bits, reset, "{name}.{field}");
                }
                fields += 1;
            }
            if let Some(mask) = expected["write_mask"].as_u64() {
                assert_eq!(u64::from(described.register.writable_nv_full), mask, "{name}");
            }
        }
    }
    assert!(fields > 700, "only {fields} fields were compared");
}

#[test]
fn the_configurations_are_the_hardware_projects() {
    let Some(configurations) = load("configurations.json") else { return };
    assert_eq!(configurations.as_object().unwrap().len(), Config::ALL.len());
    let number = |value: Option<u32>| value.map_or(Value::Null, Value::from);
    let types = |types: &[Precision]| -> Value {
        types.iter().map(|precision| format!("{precision:?}").to_lowercase()).collect::<Vec<_>>().into()
    };
    for config in Config::ALL {
        let secondary = config.secondary;
        for (name, value) in [
            ("feature_data_types", types(config.feature_types)),
            ("weight_data_types", types(config.weight_types)),
            ("weight_compression", config.weight_compression.into()),
            ("winograd", config.winograd.into()),
            ("batch", config.batch.into()),
            ("secondary_memif", config.secondary_memif.into()),
            ("sdp_lut", config.sdp_lut.into()),
            ("sdp_bs", config.sdp_bs.into()),
            ("sdp_bn", config.sdp_bn.into()),
            ("sdp_ew", config.sdp_ew.into()),
            ("bdma", config.bdma.into()),
            ("rubik", config.rubik.into()),
            ("rubik_contract", config.rubik_contract.into()),
            ("rubik_reshape", config.rubik_reshape.into()),
            ("pdp", config.pdp.into()),
            ("cdp", config.cdp.into()),
            ("mac_atomic_c_size", config.mac_atomic_c.into()),
            ("mac_atomic_k_size", config.mac_atomic_k.into()),
            ("memory_atomic_size", config.memory_atomic.into()),
            ("max_batch_size", number(config.max_batch)),
            ("cbuf_bank_number", config.cbuf_banks.into()),
            ("cbuf_bank_width", config.cbuf_bank_width.into()),
            ("cbuf_bank_depth", config.cbuf_bank_depth.into()),
            ("sdp_bs_throughput", config.sdp_bs_throughput.into()),
            ("sdp_bn_throughput", config.sdp_bn_throughput.into()),
            ("sdp_ew_throughput", number(config.sdp_ew_throughput)),
            ("pdp_throughput", config.pdp_throughput.into()),
            ("cdp_throughput", config.cdp_throughput.into()),
            ("primary_memif_latency", config.primary.latency.into()),
            ("primary_memif_max_burst_length", config.primary.max_burst_length.into()),
            ("primary_memif_width", config.primary.width.into()),
            ("secondary_memif_latency", number(secondary.map(|interface| interface.latency))),
            ("secondary_memif_max_burst_length", number(secondary.map(|interface| interface.max_burst_length))),
            ("secondary_memif_width", number(secondary.map(|interface| interface.width))),
        ] {
            assert_eq!(configurations[config.name][name], value, "{name} of {}", config.name);
        }
    }
}
