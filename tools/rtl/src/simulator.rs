// SPDX-License-Identifier: MIT OR Apache-2.0

//! The process of a simulator, and the device that it simulates.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::time::Duration;

use nvdla_model::memory::{Access, Fault, Memory, Port, Stop};
use nvdla_model::simulation::{Measured, Simulation};
use nvdla_uapi::config::{Config, MemoryInterface};
use nvdla_uapi::desc::OpType;
use thiserror::Error;

use crate::measure::{client_name, Measures};
use crate::protocol::{self, ask, Hello, Request, RequestError, State};

/// The number of cycles of a run that is limited only by time.
const UNLIMITED: u64 = u64::MAX;
/// The time limit for a program's first reply. A large design takes seconds to leave reset, and more on a busy machine.
const START: Duration = Duration::from_secs(300);
/// Cycles to run if no unit is enabled, so that register writes take effect.
const IDLE_CYCLES: u64 = 64;

/// A simulator and its options, as a user writes them: `PROGRAM[,NAME=VALUE]...`.
///
/// Each `NAME=VALUE` is the program's option `--NAME VALUE`, for example `latency=100`. Two concern the waveform, for programs
/// that can write one: `trace-fst=FILE`, and `trace-from=N`, the number of operations that complete before the waveform begins.
///
/// ```
/// let selection: nvdla_rtl::Selection = "target/nvdla_rtl_nv_small,latency=100".parse().unwrap();
/// assert_eq!(selection.program.to_str(), Some("target/nvdla_rtl_nv_small"));
/// assert_eq!(selection.arguments, ["--latency", "100"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The waveform's file.
    pub trace: Option<PathBuf>,
    /// The number of operations that complete before the waveform begins.
    pub trace_from: usize,
}

/// A text that does not name a simulator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{0}\" is not a simulator: write PROGRAM[,NAME=VALUE]..., for example target/nvdla_rtl_nv_small,latency=100")]
pub struct SelectionError(String);

impl FromStr for Selection {
    type Err = SelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || SelectionError(text.to_owned());
        let mut parts = text.split(',');
        let program = parts.next().filter(|program| !program.is_empty()).ok_or_else(error)?;
        let mut selection = Self { program: program.into(), ..Self::default() };
        for part in parts {
            let (name, value) = part.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(error)?;
            match name {
                "trace-fst" => selection.trace = Some(value.into()),
                "trace-from" => selection.trace_from = value.parse().map_err(|_| error())?,
                _ => selection.arguments.extend([format!("--{name}"), value.to_owned()]),
            }
        }
        Ok(selection)
    }
}

/// The memory timing that a simulator's options select.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// Cycles from a read's request to its first data, of DBB.
    pub latency: u32,
    /// Bytes per cycle of DBB, reads and writes together; 0: the width of the bus each way.
    pub bandwidth: f64,
    /// The bandwidth of the interface to SRAM, in the same unit.
    pub sram_bandwidth: f64,
}

impl Selection {
    /// The memory timing of these options. The program's own defaults are in `simulator/memory.h`.
    pub fn memory(&self) -> Timing {
        let option = |name: &str| {
            let pair = self.arguments.chunks_exact(2).rfind(|pair| pair[0].strip_prefix("--") == Some(name));
            pair.and_then(|pair| pair[1].parse::<f64>().ok())
        };
        Timing {
            latency: option("latency").map_or(50, |cycles| cycles as u32),
            bandwidth: option("bandwidth").unwrap_or(0.0),
            sram_bandwidth: option("sram-bandwidth").unwrap_or(0.0),
        }
    }
}

/// Why a simulator cannot be used.
#[derive(Debug, Error)]
pub enum StartError {
    /// The program cannot be run.
    #[error("cannot run the simulator {}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The program did not answer according to the protocol.
    #[error("{} is not a simulator of NVDLA: {why}", program.display())]
    Answer {
        /// The program.
        program: PathBuf,
        /// What it did.
        why: String,
    },
    /// The program simulates a configuration that the runtime does not support.
    #[error(
        "{} simulates {name}, which is not a known configuration: {}",
        program.display(),
        Config::ALL.map(|config| config.name).join(", ")
    )]
    Configuration {
        /// The program.
        program: PathBuf,
        /// The configuration.
        name: String,
    },
    /// The program cannot write the waveform.
    #[error("no waveform from {}: {why}", program.display())]
    Waves {
        /// The program.
        program: PathBuf,
        /// Why.
        why: String,
    },
}

/// A running simulator.
pub struct Simulator {
    program: PathBuf,
    child: Child,
    socket: UnixStream,
    config: &'static Config,
    interrupt: bool,
    cycle: u64,
    stops: VecDeque<Stop>,
    /// Why the simulator does not answer any more.
    lost: Option<String>,
    measures: Measures,
    waves: Waves,
}

/// The requested waveform.
struct Waves {
    /// The file, until the waveform begins.
    file: Option<PathBuf>,
    /// The number of operations that complete before it begins.
    left: usize,
}

impl fmt::Debug for Simulator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulator").field("program", &self.program).field("cycle", &self.cycle).finish_non_exhaustive()
    }
}

impl Simulator {
    /// Starts the program. When this returns, the design is out of reset and has no memory.
    ///
    /// # Errors
    ///
    /// If the program does not run, does not implement the protocol, or simulates an unsupported configuration.
    pub fn start(selection: &Selection) -> Result<Self, StartError> {
        // A name without a folder is a file in the current folder, not a command on the search path.
        let program = if selection.program.components().count() == 1 {
            Path::new(".").join(&selection.program)
        } else {
            selection.program.clone()
        };
        let cannot = |source| StartError::Run { program: program.clone(), source };
        let (mut socket, theirs) = UnixStream::pair().map_err(cannot)?;
        let mut command = Command::new(&program);
        command.args(&selection.arguments).stdin(Stdio::from(OwnedFd::from(theirs)));
        // The host uses the standard output, so the program writes to the standard error.
        let output = io::stderr().as_fd().try_clone_to_owned().map_err(cannot)?;
        let mut child = command.stdout(Stdio::from(output)).spawn().map_err(cannot)?;
        // The command holds the simulator's end of the socket. It is dropped so that the connection ends with the program.
        drop(command);
        socket.set_read_timeout(Some(START)).map_err(cannot)?;
        let hello = ask(&mut socket, protocol::HELLO, &Request::default().word(protocol::VERSION));
        let hello = hello.and_then(|bytes| Ok(Hello::read(&bytes)?));
        let hello = hello.map_err(|error| {
            let why = describe(error, &mut child);
            let _ = child.kill();
            let _ = child.wait();
            StartError::Answer { program: program.clone(), why }
        })?;
        socket.set_read_timeout(None).map_err(cannot)?;
        log::info!(
            "{}: {}, DBB of {} bytes and {} address bits, SRAM of {} bytes{}",
            program.display(),
            hello.config,
            hello.dbb_bytes,
            hello.address_bits,
            hello.sram_bytes,
            if hello.waves { ", with waveforms" } else { "" }
        );
        let unknown = || StartError::Configuration { program: program.clone(), name: hello.config.clone() };
        let mut simulator = Self {
            config: configuration(&hello).ok_or_else(unknown)?,
            program: program.clone(),
            child,
            socket,
            interrupt: false,
            cycle: 0,
            stops: VecDeque::new(),
            lost: None,
            measures: Measures::default(),
            waves: Waves { file: selection.trace.clone(), left: selection.trace_from },
        };
        if selection.trace.is_some() && !hello.waves {
            let why = "it was built without waveforms (cargo xtask rtl --waves)".into();
            return Err(StartError::Waves { program, why });
        }
        simulator.trace().map_err(|error| StartError::Waves { program, why: error.to_string() })?;
        Ok(simulator)
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The number of cycles so far.
    pub fn cycle(&self) -> u64 {
        self.cycle
    }

    /// Runs the design: [`Simulation::run`] without the memory, which a simulator does not need.
    pub fn run(&mut self, limit: Duration) -> bool {
        let milliseconds = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX).max(1);
        let busy = self.measures.busy();
        let cycles = if busy { UNLIMITED } else { IDLE_CYCLES };
        match self.state(protocol::RUN, &Request::default().long(cycles).word(milliseconds)) {
            Some(protocol::INTERRUPT) => true,
            Some(protocol::IDLE) | None => false,
            Some(_) => busy,
        }
    }

    /// Runs the design for at most this many cycles. Returns whether it ended for an interrupt; another reason than the cycles is a
    /// [`Simulation::take_stop`].
    pub fn run_cycles(&mut self, cycles: u64) -> bool {
        self.state(protocol::RUN, &Request::default().long(cycles).word(0)) == Some(protocol::INTERRUPT)
    }

    /// Begins the waveform if enough operations have completed.
    fn trace(&mut self) -> io::Result<()> {
        if self.waves.left > 0 {
            return Ok(());
        }
        let Some(file) = self.waves.file.take() else { return Ok(()) };
        let path = std::path::absolute(file)?;
        self.plain(protocol::WAVES, &Request::default().bytes(path.as_os_str().as_encoded_bytes()))
    }

    /// Sends a request, unless the connection is lost. An error stops the device.
    fn ask(&mut self, kind: u32, request: &Request) -> Result<Vec<u8>, String> {
        if let Some(lost) = &self.lost {
            return Err(lost.clone());
        }
        ask(&mut self.socket, kind, request).map_err(|error| {
            let broken = matches!(error, RequestError::Broken(_));
            let why = describe(error, &mut self.child);
            let why = format!("the simulator {}: {why}", self.program.display());
            if broken {
                self.lost = Some(why.clone());
            }
            why
        })
    }

    /// Sends a request whose reply is empty.
    fn plain(&mut self, kind: u32, request: &Request) -> io::Result<()> {
        self.ask(kind, request).map(drop).map_err(io::Error::other)
    }

    /// Sends a request whose reply has the device's state, and returns the value in it. An error stops the device.
    fn state(&mut self, kind: u32, request: &Request) -> Option<u32> {
        let state = self.ask(kind, request).and_then(|bytes| {
            State::read(&bytes).map_err(|error| format!("the simulator {}: {error}", self.program.display()))
        });
        let state = match state {
            Ok(state) => state,
            Err(what) => {
                self.stops.push_back(Stop::Simulator { what });
                return None;
            }
        };
        (self.cycle, self.interrupt) = (state.cycle, state.interrupt);
        for done in &state.done {
            self.measures.done(done);
        }
        if let Some(what) = state.assertion {
            self.stops.push_back(Stop::Assertion { what, cycle: state.cycle });
        }
        if let Some(outside) = state.outside {
            self.stops.push_back(Stop::Fault(Fault {
                unit: client_name(outside.client),
                access: if outside.write { Access::Write } else { Access::Read },
                port: if outside.interface == 0 { Port::Primary } else { Port::Secondary },
                address: outside.address,
                length: outside.bytes,
            }));
        }
        Some(state.value)
    }
}

/// The configuration that the simulator names, with its own memory interfaces.
fn configuration(hello: &Hello) -> Option<&'static Config> {
    let known = Config::by_name(&hello.config)?;
    let width = |bytes: u32| bytes.saturating_mul(8);
    let secondary = known.secondary.filter(|_| hello.sram_bytes != 0);
    let own = Config {
        primary: MemoryInterface { width: width(hello.dbb_bytes), ..known.primary },
        secondary_memif: hello.sram_bytes != 0,
        secondary: secondary.map(|secondary| MemoryInterface { width: width(hello.sram_bytes), ..secondary }),
        address_width: known.address_width.map(|_| hello.address_bits),
        ..*known
    };
    // Leaked, because a device usually lives as long as the process. It adds only a few hundred bytes.
    Some(if own == *known { known } else { Box::leak(Box::new(own)) })
}

/// Describes an error, including whether the program has ended.
fn describe(error: RequestError, child: &mut Child) -> String {
    let error = match error {
        RequestError::Refused(why) => return why,
        RequestError::Broken(error) => error,
    };
    // The connection ends slightly earlier than the process.
    let ended = (0..50).find_map(|_| {
        let status = child.try_wait().ok().flatten();
        if status.is_none() && error.kind() != io::ErrorKind::Other {
            std::thread::sleep(Duration::from_millis(2));
        }
        status
    });
    match ended.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("it ended with status {code}"),
        Some((_, Some(signal))) => format!("it was ended by signal {signal}"),
        // Only the reply to the first request has a time limit.
        _ if error.kind() == io::ErrorKind::WouldBlock => format!("it did not answer within {} s", START.as_secs()),
        _ => error.to_string(),
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        // The program ends when the connection does, and completes its waveform first.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
        let _ = self.child.wait();
    }
}

impl Simulation for Simulator {
    fn config(&self) -> &'static Config {
        self.config
    }

    fn read(&mut self, offset: u32) -> u32 {
        self.state(protocol::READ, &Request::default().word(offset)).unwrap_or(0)
    }

    fn write(&mut self, offset: u32, value: u32) {
        if self.state(protocol::WRITE, &Request::default().word(offset).word(value)).is_some() {
            self.measures.written(self.config.family, offset, value, self.cycle);
        }
    }

    fn interrupt(&self) -> bool {
        self.interrupt
    }

    fn run(&mut self, _memory: &mut dyn Memory, limit: Duration) -> bool {
        Self::run(self, limit)
    }

    fn take_stop(&mut self) -> Option<Stop> {
        self.stops.pop_front()
    }

    fn reset(&mut self) {
        self.measures = Measures::default();
        self.stops.clear();
        self.state(protocol::RESET, &Request::default());
    }

    fn completed(&mut self, unit: OpType) -> Option<Measured> {
        self.waves.left = self.waves.left.saturating_sub(1);
        if let Err(error) = self.trace() {
            log::error!("no waveform: {error}");
        }
        self.measures.take(unit)
    }

    fn shares_memory(&self) -> bool {
        true
    }

    fn map(
        &mut self,
        address: u64,
        length: u64,
        file: &File,
        offset: u64,
        interfaces: u32,
        writable: bool,
    ) -> io::Result<()> {
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let request = Request::default().long(address).long(length).long(offset);
        let request = request.word(interfaces).word(writable.into()).bytes(path.as_bytes());
        self.plain(protocol::MAP, &request)
    }

    fn unmap(&mut self, address: u64, length: u64) -> io::Result<()> {
        self.plain(protocol::UNMAP, &Request::default().long(address).long(length))
    }

    fn allow(&mut self, ranges: Option<&[Range<u64>]>) -> io::Result<()> {
        let list = ranges.unwrap_or_default();
        let count = u32::try_from(list.len()).map_err(io::Error::other)?;
        let request = Request::default().word(ranges.is_none().into()).word(count);
        let request =
            list.iter().fold(request, |request, range| request.long(range.start).long(range.end - range.start));
        self.plain(protocol::ALLOW, &request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_user_may_write() {
        let read = |text: &str| text.parse::<Selection>();
        let all = read("sim,latency=100,sram-bandwidth=3.5,trace-fst=a.fst,trace-from=3").unwrap();
        assert_eq!(all.arguments, ["--latency", "100", "--sram-bandwidth", "3.5"]);
        assert_eq!(all.memory(), Timing { latency: 100, bandwidth: 0.0, sram_bandwidth: 3.5 });
        assert_eq!((all.trace, all.trace_from), (Some("a.fst".into()), 3));
        for wrong in ["", ",latency=1", "sim,latency", "sim,=1", "sim,trace-from=x"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_design_of_other_interfaces_has_them() {
        let hello = |dbb_bytes, address_bits, sram_bytes, config: &str| {
            configuration(&Hello { dbb_bytes, address_bits, sram_bytes, waves: false, config: config.into() })
        };
        assert_eq!(hello(8, 32, 0, "nv_small"), Some(&nvdla_uapi::config::NV_SMALL));
        let wide = hello(16, 40, 0, "nv_small").unwrap();
        assert_eq!((wide.name, wide.primary.width, wide.address_width), ("nv_small", 128, Some(40)));
        assert_eq!(hello(8, 32, 0, "nv_tiny"), None);
    }

    fn start(program: &str, arguments: &str) -> String {
        let selection =
            Selection { program: program.into(), arguments: vec![arguments.into()], ..Selection::default() };
        Simulator::start(&selection).expect_err("no simulator").to_string()
    }

    #[test]
    fn a_program_that_is_no_simulator_says_so() {
        assert_eq!(start("/no/such/program", ""), "cannot run the simulator /no/such/program");
        assert_eq!(start("/bin/true", ""), "/bin/true is not a simulator of NVDLA: it ended with status 0");
    }
}
