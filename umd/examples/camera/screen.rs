// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shows a picture to the kernel's virtual camera, vivid. The module's parameters are in `tools/xtask/src/vm/guest.rs`.

use std::error::Error;
use std::path::Path;
use std::thread;

use nvdla_runtime::image::{Encoder, Given, PictureFile, Target};
use nvdla_runtime::session::TensorInfo;

use super::v4l2::{Kind, Video};

/// "HDMI 000-0 Is Connected To", and the first output.
const CONNECTED: (u32, i32) = (0x00f0_f000 + 113, 2);
/// "OSD Text Mode" of vivid, and none: it would write over the picture.
const TEXT: (u32, i32) = (0x00f0_f000 + 1, 2);
/// Buffers of the output, all with the picture.
const BUFFERS: u32 = 4;

/// Shows a picture until the program is ended: `screen` is vivid's output and `video` its camera, whose HDMI input is connected to it.
/// The picture gets the size and the layout of a network's input.
pub(crate) fn show(input: &TensorInfo, picture: &str, screen: &str, video: &str) -> Result<(), Box<dyn Error>> {
    let picture = PictureFile::open(picture)?.decode(None)?;
    let encoder = Encoder::new(&Target::from(input), &Given { resize: true, ..Given::default() }.settings(input)?)?;
    let [screen, camera] = [(screen, Kind::Output), (video, Kind::Capture)]
        .map(|(node, kind)| Video::open(Path::new(node), kind, input.w, input.h, input.line_stride()));
    let (screen, camera) = (screen?, camera?);
    for index in 0..screen.allocate(BUFFERS)? {
        encoder.encode(&picture, &mut screen.map(index)?[..input.size as usize])?;
        screen.queue(index, input.size as u32)?;
    }
    screen.start()?;
    for (id, value) in [CONNECTED, TEXT] {
        camera.control(id, value)?;
    }
    drop(camera);
    println!("the picture is shown");
    loop {
        thread::park();
    }
}
