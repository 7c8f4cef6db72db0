// SPDX-License-Identifier: MIT OR Apache-2.0

//! Other processes: this program is started again in a role.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use libtest_mimic::Failed;
use nix::sys::socket::{recvmsg, sendmsg, ControlMessage, ControlMessageOwned, MsgFlags};
use nvdla_guest::control::{Control, Knob};
use nvdla_guest::fence::Timeline;
use nvdla_guest::node::{Node, Options};
use nvdla_guest::test_task::TestTask;
use nvdla_uapi::ioctl::MAX_BUFFERS_PER_TASK;
use nvdla_uapi::queue::Address;

use crate::expect::equal;

/// The first word of a child's command line.
pub(crate) const FLAG: &str = "--child";

/// Starts a child in a role, on a node.
pub(crate) fn start(part: &str, node: &Node, input: Stdio) -> Result<Child, Failed> {
    let mut command = Command::new("/proc/self/exe");
    command.args([FLAG, part]).arg(node.path()).stdin(input).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

/// A child's main function.
pub(crate) fn run(part: &str, arguments: &[String]) -> ExitCode {
    let result = match (part, arguments) {
        ("first", [node]) => first(Path::new(node)),
        ("queue", [node]) => queue(Path::new(node)),
        ("receive", [node]) => receive(Path::new(node)),
        ("hoard", [node]) => hoard(Path::new(node)),
        ("stay", [node]) => stay(Path::new(node)),
        _ => Err(format!("no such part: {part} {arguments:?}").into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{part}: {}", failed.message().unwrap_or("failed"));
            ExitCode::FAILURE
        }
    }
}

/// Tells the parent that the next call is the tested one.
fn ready() -> Result<(), Failed> {
    println!("ready");
    Ok(std::io::stdout().flush()?)
}

/// Waits until a child says that its next call is the tested one.
pub(crate) fn wait_ready(child: &mut Child) -> Result<(), Failed> {
    Ok(child.stdout.as_mut().ok_or("no output")?.read_exact(&mut [0; 6])?)
}

/// Runs a task through NVIDIA's ioctl, which returns when it has ended. Without that ioctl it waits for the task.
fn first(node: &Path) -> Result<(), Failed> {
    let node = Node::open(node)?;
    let test_task = TestTask::copies(&node, 1)?;
    if !node.has_first() {
        ready()?;
        return equal("the task's end", test_task.run(&node)?, 0);
    }
    let (list, _fds) = test_task.exported(&node)?;
    ready()?;
    Ok(node.submit_first(&list, 0)?)
}

/// Queues many tasks and waits for the last.
fn queue(node: &Path) -> Result<(), Failed> {
    let node = Node::open(node)?;
    let test_task = TestTask::copies(&node, 1)?;
    let mut last = 0;
    for _ in 0..100 {
        last = test_task.submit(&node, Options::default())?.sequence;
    }
    ready()?;
    equal("the task's end", node.end(last)?, 0)
}

/// Starts a task that does not end before the machine is switched off.
fn stay(node: &Path) -> Result<(), Failed> {
    let node = Node::open(node)?;
    let control = Control::open(&node.device()?)?;
    let test_task = TestTask::copies(&node, 1)?;
    let before = control.counts().starts;
    control.set(Knob::Hang, 1);
    let sequence = test_task.submit(&node, Options { deadline_ns: u64::MAX, ..Options::default() })?.sequence;
    control.until_started(before)?;
    ready()?;
    equal("the task's end", node.end(sequence)?, -libc::ENODEV)
}

/// Runs a task in a buffer that it received.
fn receive(node: &Path) -> Result<(), Failed> {
    let node = Node::open(node)?;
    let fd = receive_fd(0)?;
    let handle = node.import(fd.as_raw_fd())?;
    drop(fd);
    let mut test_task = TestTask::copies(&node, 1)?;
    // This client's own buffers stay unused: only the cubes' buffer belongs to another client.
    if let Some(last) = test_task.addresses.last_mut() {
        *last = Address { handle, flags: 0, offset: 0 };
    }
    equal("the task's end", test_task.run(&node)?, 0)
}

/// Waits for the end of its input, queues tasks with long address lists until one is refused, and keeps them.
fn hoard(node: &Path) -> Result<(), Failed> {
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let node = Node::open(node)?;
    let timeline = Timeline::new()?;
    let gate = timeline.fence(1)?;
    let options = Options { in_fences: &[gate.as_raw_fd()], ..Options::default() };
    let mut test_task = TestTask::copies(&node, 50)?;
    let last = *test_task.addresses.last().ok_or("no addresses")?;
    test_task.addresses.resize(MAX_BUFFERS_PER_TASK as usize, last);
    while test_task.submit(&node, options).is_ok() {}
    ready()?;
    loop {
        std::thread::park();
    }
}

/// Sends a descriptor.
pub(crate) fn send_fd(socket: RawFd, fd: RawFd) -> Result<(), Failed> {
    let fds = [fd];
    sendmsg::<()>(socket, &[IoSlice::new(b"f")], &[ControlMessage::ScmRights(&fds)], MsgFlags::empty(), None)?;
    Ok(())
}

fn receive_fd(socket: RawFd) -> Result<OwnedFd, Failed> {
    let mut byte = [0];
    let mut space = nix::cmsg_space!(RawFd);
    let mut buffers = [IoSliceMut::new(&mut byte)];
    let message = recvmsg::<()>(socket, &mut buffers, Some(&mut space), MsgFlags::empty())?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = control {
            if let Some(&fd) = fds.first() {
                // SAFETY: the message brought a new descriptor.
                return Ok(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
    }
    Err("no descriptor came".into())
}
