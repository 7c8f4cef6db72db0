// SPDX-License-Identifier: MIT OR Apache-2.0

//! The runtime drives the device behind this server's socket directly, without a virtual machine.
//!
//! The reference's loadables must give its outputs. `NVDLA_CONFORMANCE=all` runs all of them, otherwise a few for each
//! configuration run. After a failure on either side the other side remains usable.

use std::io::{BufRead, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nvdla_runtime::device::{self, DirectDevice, DirectSelection, ModelDevice, Selection, Shared};
use nvdla_runtime::loadable::Loadable;
use nvdla_runtime::session::{RunOptions, Session};
use nvdla_runtime::Network;
use nvdla_tests::{case, reference};
use nvdla_uapi::config::{Config, NV_FULL, NV_LARGE, NV_SMALL};

/// The environment variable with the socket of [`client`].
const SOCKET: &str = "NVDLA_TEST_SOCKET";
/// The cases of the default run: a network, each unit of the configuration, and invalid ones.
const CASES: [&str; 14] = [
    "lenet.nv_small.int8.default",
    "m_concat_pool.nv_small.int8",
    "m_conv3x3.nv_small.int8",
    "m_bn_relu_pre.nv_small.int8",
    "lenet.nv_large.int8.per-filter",
    "m_concat_conv.nv_large.int8",
    "m_bn.nv_large.int8",
    "lenet.nv_full.fp16.default",
    "lenet.nv_full.int8.opt-winograd",
    "lenet.nv_full.fp16.opt-compress",
    "lenet.nv_full.fp16.opt-cvsram",
    "m_concat2.nv_full.fp16",
    "m_bn.nv_full.int8",
    "m_conv3x3.nv_full.fp16",
];

/// A server process, which is ended when this value is dropped.
struct Server {
    process: Child,
    socket: PathBuf,
}

impl Server {
    fn start(config: &Config, options: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let socket = std::env::temp_dir().join(format!("nvdla-direct-{}-{number}", std::process::id()));
        let process = Command::new(env!("CARGO_BIN_EXE_nvdla_vp"))
            .args(["--persist", "--config", config.name, "--socket"])
            .arg(&socket)
            .args(options)
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, socket };
        let start = Instant::now();
        while !server.socket.exists() {
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not listen");
            std::thread::sleep(Duration::from_millis(2));
        }
        server
    }

    fn selection(&self) -> DirectSelection {
        DirectSelection::VfioUser(self.socket.clone())
    }

    fn device(&self) -> DirectDevice {
        DirectDevice::open(&self.selection()).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.socket);
    }
}

const LENET: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/lenet/lenet.nv_small.nvdla");

fn fill(input: &mut [u8]) {
    input.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at * 37 % 128) as u8);
}

/// A session of LeNet with an input, on a device.
fn lenet<D: device::Device>(device: D) -> Session<D> {
    let mut session = Session::new(Loadable::open(LENET).unwrap(), device).unwrap();
    fill(session.input_mut(0).unwrap());
    session
}

fn by_model() -> Vec<u8> {
    let mut session = lenet(ModelDevice::new(&NV_SMALL));
    session.run().unwrap();
    session.output(0).unwrap().to_vec()
}

fn within(milliseconds: u64) -> RunOptions<'static> {
    RunOptions { timeout: Some(Duration::from_millis(milliseconds)), ..Default::default() }
}

#[test]
fn the_references_loadables_give_its_outputs() {
    let Some(folder) = reference::folder() else { return };
    let all = std::env::var("NVDLA_CONFORMANCE").as_deref() == Ok("all");
    let cases = case::all(&folder).unwrap();
    for config in [&NV_SMALL, &NV_LARGE, &NV_FULL] {
        let server = Server::start(config, &[]);
        let selection = Selection::Direct(server.selection());
        let bad = cases.iter().filter(|case| case.config.name == config.name && is_refused(case));
        let bad: Vec<_> = bad.take(if all { usize::MAX } else { 2 }).collect();
        let good = cases.iter().filter(|case| case.config.name == config.name && !is_refused(case));
        let good: Vec<_> = good.filter(|case| all || is_named(case)).collect();
        assert!(good.len() >= 3, "{}: {} cases", config.name, good.len());
        let start = Instant::now();
        let (mut outputs, mut surfaces) = (0, 0);
        for case in bad.iter().chain(&good) {
            let compared = case.run_on(&selection, &mut |_| {}).unwrap_or_else(|why| panic!("{}: {why}", case.name));
            outputs += compared.outputs;
            surfaces += compared.surfaces;
        }
        println!(
            "{}: {} loadables equal ({outputs} outputs, {surfaces} surfaces), {} refused, {:.1} s",
            config.name,
            good.len(),
            bad.len(),
            start.elapsed().as_secs_f64()
        );
    }
}

fn is_named(case: &case::Case) -> bool {
    case.name.rsplit('/').next().is_some_and(|name| CASES.contains(&name))
}

fn is_refused(case: &case::Case) -> bool {
    matches!(case.expected, case::Expected::Refused(_))
}

#[test]
fn one_program_after_another_has_the_device() {
    let server = Server::start(&NV_SMALL, &[]);
    let expected = by_model();
    for _ in 0..2 {
        let mut session = lenet(server.device());
        for _ in 0..3 {
            session.run().unwrap();
            assert_eq!(session.output(0).unwrap(), expected);
        }
    }
}

#[test]
fn a_client_that_does_nothing_does_not_keep_others_out() {
    let server = Server::start(&NV_SMALL, &[]);
    // One that has gone, and one that stays.
    drop(UnixStream::connect(&server.socket).unwrap());
    let idle = UnixStream::connect(&server.socket).unwrap();
    let mut session = lenet(server.device());
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
    drop(idle);
}

/// A message: its number, its command, its size, its flags, no error, and its bytes.
fn message(command: u16, size: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = [7u16.to_le_bytes(), command.to_le_bytes()].concat();
    bytes.extend([size, 0, 0].map(u32::to_le_bytes).concat());
    bytes.extend(body);
    bytes
}

#[test]
fn messages_that_no_client_should_send_end_only_its_connection() {
    let [version, map, read, write] = [1, 2, 9, 10];
    let mut server = Server::start(&NV_SMALL, &[]);
    let access = |offset: u64, region: u32, count: u32| {
        [offset.to_le_bytes().to_vec(), region.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()].concat()
    };
    let mut hostile = vec![
        message(version, 0, &[0; 4]),
        message(version, 19, &[0; 4]),
        message(version, 20, &[0; 4]),
        message(version, u32::MAX, &[0; 4]),
        message(version, 24, &[0, 0, 0, 0, b'{', b'}', b' ', b' ']),
        message(version, 24, &[0; 8]),
        message(map, 48, &[0xff; 32]),
        message(read, 32, &access(0, 0, u32::MAX)),
        message(read, 32, &access(u64::MAX, 7, 256)),
        message(read, 32, &access(0, u32::MAX, 4)),
        message(write, 36, &access(0, 0, u32::MAX)),
        message(write, 36, &[access(u64::MAX, 7, 4), vec![0; 4]].concat()),
        message(write, 33, &[access(0, 7, 1), vec![0; 1]].concat()),
        vec![0xff; 15],
    ];
    // Each command, with words that are large and small.
    for command in 0..=16 {
        hostile.push(message(command, u32::MAX, &[0xff; 64]));
        hostile.push(message(command, 64, &[0; 48]));
        hostile.push(message(command, 16, &[]));
    }
    for bytes in hostile {
        let mut client = UnixStream::connect(&server.socket).unwrap();
        // The server may have ended the connection before all was written.
        let _ = client.write_all(&bytes);
        client.shutdown(Shutdown::Write).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = std::io::copy(&mut client, &mut std::io::sink());
        assert!(server.process.try_wait().unwrap().is_none(), "the server has ended after {bytes:02x?}");
    }
    let mut session = lenet(server.device());
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
}

#[test]
fn no_file_and_no_other_server_loses_its_name() {
    let server = Server::start(&NV_SMALL, &[]);
    let file = std::env::temp_dir().join(format!("nvdla-thesis-{}", std::process::id()));
    std::fs::write(&file, b"a thesis").unwrap();
    for (socket, why) in [(&server.socket, "another server listens on it"), (&file, "a file that is not a socket")] {
        let output = Command::new(env!("CARGO_BIN_EXE_nvdla_vp")).arg("--socket").arg(socket).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"a thesis");
    std::fs::remove_file(&file).unwrap();
    lenet(server.device()).run().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_nvdla_vp")).arg("--version").output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"nvdla_vp "), "{output:?}");
}

#[test]
fn contexts_share_the_device() {
    let server = Server::start(&NV_SMALL, &[]);
    let network = Network::new(Loadable::open(LENET).unwrap(), &Shared::new(server.device())).unwrap();
    let mut contexts = [network.context().unwrap(), network.context().unwrap()];
    let mut pending = Vec::new();
    for context in &mut contexts {
        fill(context.input_mut(0).unwrap());
        pending.push(context.submit().unwrap());
    }
    for (run, context) in pending.into_iter().zip(&contexts) {
        run.wait(None).unwrap();
        assert_eq!(context.output(0).unwrap(), by_model());
    }
}

#[test]
fn the_interrupt_line_serves_as_an_msi_does() {
    let server = Server::start(&NV_SMALL, &["--no-msi"]);
    let mut session = lenet(server.device());
    let start = Instant::now();
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_lost_interrupt_delays_a_task_and_a_hang_ends_it() {
    let server = Server::start(&NV_SMALL, &["--lose-interrupt", "2"]);
    let expected = by_model();
    let mut session = lenet(server.device());
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), expected);
    drop((session, server));

    let server = Server::start(&NV_SMALL, &["--hang", "3"]);
    let mut session = lenet(server.device());
    let error = case::chain(&session.run_with(within(1500)).unwrap_err());
    assert!(error.contains("the deadline passed") && error.contains("its interrupt did not come"), "{error}");
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), expected, "after its reset the device runs the next task");
}

#[test]
fn a_server_that_dies_ends_the_task() {
    let server = Server::start(&NV_SMALL, &["--delay", "300000"]);
    let mut session = lenet(server.device());
    let start = Instant::now();
    let pid = server.process.id().to_string();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(400));
        Command::new("kill").args(["-9", &pid]).status().unwrap()
    });
    let error = session.run().unwrap_err();
    assert!(killer.join().unwrap().success());
    let error = case::chain(&error);
    assert!(error.contains("is lost: the connection to the simulator failed"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    let error = case::chain(&session.run().unwrap_err());
    assert!(error.contains("is lost"), "{error}");
    drop(session);
    let error = DirectDevice::open(&server.selection()).unwrap_err();
    assert!(error.to_string().contains("cannot connect to the simulator"), "{error}");
}

#[test]
fn a_program_that_is_killed_leaves_the_device_to_the_next() {
    let server = Server::start(&NV_SMALL, &["--delay", "20000"]);
    let mut client = Command::new(std::env::current_exe().unwrap())
        .args(["client", "--exact", "--ignored", "--nocapture"])
        .env(SOCKET, &server.socket)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("it runs")));
    std::thread::sleep(Duration::from_millis(100));
    // SIGKILL during a task.
    client.kill().unwrap();
    client.wait().unwrap();
    let mut session = lenet(server.device());
    session.run().unwrap();
    assert_eq!(session.output(0).unwrap(), by_model());
}

#[test]
#[ignore = "the program that another test kills"]
fn client() {
    let Some(socket) = std::env::var_os(SOCKET) else { return };
    let mut session = lenet(DirectDevice::open(&DirectSelection::VfioUser(socket.into())).unwrap());
    println!("it runs");
    loop {
        session.run().unwrap();
    }
}
