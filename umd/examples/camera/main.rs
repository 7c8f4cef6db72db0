// SPDX-License-Identifier: MIT OR Apache-2.0

//! A camera in front of a detector, without a copy: NVDLA reads the memory into which the camera's driver writes.
//!
//!     cargo run --release --example camera -- NET VIDEO FRAMES BOXES.ppm
//!     cargo run --release --example camera -- NET show PICTURE SCREEN VIDEO
//!
//! NET is CenterFace with an input of pictures: `nvdla compile centerface.onnx --color rgb --input u8 …`. VIDEO is the camera's node, such
//! as /dev/video0. Its pictures must come in one piece of memory, which many cameras of a system on a chip give, and a USB camera
//! does not. The last frame is written with its boxes. The second command shows a picture to the kernel's virtual camera, vivid, whose
//! output is SCREEN, until it is ended. `docs/examples.md` has more.

mod boxes;
mod screen;
mod touched;
mod v4l2;

use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, mem};

use nvdla_runtime::device::{self, Selection, Shared};
use nvdla_runtime::loadable::{Loadable, PixelFormat};
use nvdla_runtime::session::{Direction, Session};
use nvdla_runtime::{Context, Network};

use boxes::Detection;
use v4l2::{Kind, Video};

/// Buffers of the camera, each with a context.
const BUFFERS: u32 = 4;
/// Frames on the device at a time.
const DEPTH: usize = 2;
/// The least score of a detection.
const LEAST: f32 = 0.5;
const USAGE: &str = "usage: camera NET VIDEO FRAMES BOXES.ppm, or camera NET show PICTURE SCREEN VIDEO";

/// The boxes that a context's last run has found.
fn detections(context: &Context) -> Result<Vec<Detection>, Box<dyn Error>> {
    let columns = context.outputs().next().map_or(1, |heat| heat.w as usize);
    let [heat, size, offset] = [0, 1, 2].map(|output| context.output_f32(output));
    Ok(boxes::decode(&heat?, &size?, &offset?, columns, LEAST))
}

/// The processor time of this process.
fn processor_time() -> Duration {
    // SAFETY: all fields are integers, and the call writes them.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let loadable = Loadable::open(words.first().ok_or(USAGE)?)?;
    if let [_, "show", picture, screen, video] = words[..] {
        let device = device::open(&Selection::Model(None), &loadable)?.device;
        let session = Session::new(loadable, device)?;
        return screen::show(session.inputs().next().ok_or("the network has no input")?, picture, screen, video);
    }
    let [_, node, frames, boxes] = words[..] else { return Err(USAGE.into()) };
    let frames: u32 = frames.parse()?;
    let device = Shared::new(device::open(&Selection::Auto, &loadable)?.device);
    println!("device: {}", device.info());
    let network = Network::new(loadable, &device)?;
    let input = network.context()?.inputs().next().cloned().ok_or("the network has no input")?;
    if input.pixel_format != PixelFormat::A8B8G8R8 {
        return Err(format!("the input is {}, not a picture: compile with --color", input.pixel_format).into());
    }

    // The camera writes into these buffers. Each is the input of a context.
    let video = Video::open(Path::new(node), Kind::Capture, input.w, input.h, input.line_stride())?;
    let mut contexts = Vec::new();
    let mut memory = Vec::new();
    for index in 0..video.allocate(BUFFERS)? {
        let mut context = network.context()?;
        context.bind_fd(Direction::Input, 0, video.export(index)?.as_fd())?;
        let bytes = context.input_mut(0)?;
        memory.push((bytes.as_ptr() as usize, bytes.len()));
        contexts.push(context);
        video.queue(index, 0)?;
    }
    touched::count(&memory)?;
    video.start()?;

    let mut running = VecDeque::new();
    let (mut found, mut last) = (Vec::new(), 0);
    let (start, before) = (Instant::now(), processor_time());
    for frame in 1..=frames {
        let index = video.dequeue()?;
        running.push_back((index, contexts[index as usize].submit()?));
        while running.len() >= if frame == frames { 1 } else { DEPTH } {
            let Some((index, run)) = running.pop_front() else { break };
            run.wait(None)?;
            found = detections(&contexts[index as usize])?;
            last = index;
            if frame < frames {
                video.queue(index, 0)?;
            }
        }
    }
    let (took, used) = (start.elapsed(), processor_time().saturating_sub(before));
    let per_frame = used.as_secs_f64() * 1e3 / f64::from(frames);
    println!("{frames} frames, {:.1} per second", f64::from(frames) / took.as_secs_f64());
    println!("processor time: {per_frame:.2} ms per frame");
    println!("pages of frames that the processor touched: {}", touched::pages());

    // The picture for people is drawn by the processor, so it touches this frame.
    let (line, size) = (input.line_stride() as usize, input.size as usize);
    let mut pixels = contexts[last as usize].input_mut(0)?[..size].to_vec();
    println!("pages after the picture was read: {}", touched::pages());
    boxes::draw(&mut pixels, line, &found);
    let mut file = File::create(boxes)?;
    writeln!(file, "P6 {} {} 255", input.w, input.h)?;
    let rgb = pixels.chunks_exact(4).flat_map(|pixel| [pixel[2], pixel[1], pixel[0]]).collect::<Vec<_>>();
    file.write_all(&rgb)?;
    for Detection { score, left, top, right, bottom } in &found {
        println!("face {score:.3}: {left:.1} {top:.1} {right:.1} {bottom:.1}");
    }
    Ok(())
}
