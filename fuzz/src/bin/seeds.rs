// SPDX-License-Identifier: MIT OR Apache-2.0

//! Makes inputs of the fuzz target `task` from loadables: `seeds FOLDER LOADABLE...`.

use std::error::Error;
use std::path::Path;

use nvdla_runtime::device::recognise;
use nvdla_runtime::loadable::{Interface, Loadable};
use nvdla_uapi::config::Config;

/// The largest buffer that the target makes.
const SIZE: u64 = 1 << 20;
/// The most content that an entry carries.
const CONTENT: usize = 0x1_ffff;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().ok_or("usage: seeds FOLDER LOADABLE...")?;
    for (number, path) in arguments.enumerate() {
        let loadable = Loadable::open(&path)?;
        let config = recognise(&loadable).config;
        let config = Config::ALL.iter().position(|other| other.name == config.name).unwrap_or(0) as u8;
        for task in loadable.tasks_in_order().filter(|task| task.interface() == Interface::Dla1) {
            let mut seed = vec![config];
            for id in task.address_list().iter() {
                let Some(address) = loadable.address(id) else { continue };
                let Some(memory) = loadable.memory(address.mem_id()) else { continue };
                let mut bytes = vec![0; memory.size().min(SIZE) as usize];
                for (blob, offset) in loadable.contents(memory) {
                    let from = blob.data();
                    if let Some(to) = bytes.get_mut(offset as usize..) {
                        let length = to.len().min(from.len());
                        to[..length].copy_from_slice(&from[..length]);
                    }
                }
                let bytes = bytes.get(address.offset() as usize..).unwrap_or_default();
                let length = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1).min(CONTENT);
                seed.extend_from_slice(&(bytes.len() as u32).to_le_bytes()[..3]);
                seed.extend_from_slice(&(length as u32).to_le_bytes()[..3]);
                seed.extend_from_slice(&bytes[..length]);
            }
            std::fs::write(Path::new(&folder).join(format!("{number}-{}", task.id())), seed)?;
        }
    }
    Ok(())
}
