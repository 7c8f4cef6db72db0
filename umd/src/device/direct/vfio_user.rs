// SPDX-License-Identifier: MIT OR Apache-2.0

//! A device in another process, through a UNIX socket: `nvdla_vp`, or any other server of the protocol vfio-user.
//!
//! The client waits for each answer without a time limit. Therefore it runs in a separate
//! thread, and this side waits for the thread with a limit. Register writes are passed to the thread without waiting,
//! like posted writes on a bus. The next read reports an error of an earlier write.
//!
//! Source: "vfio-user Protocol Specification", version 0.9 (QEMU's `docs/interop/vfio-user.rst`); `linux/vfio.h` for the
//! numbers of regions and interrupts.

use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::mpsc::{channel, sync_channel, RecvTimeoutError, Sender};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use vfio_bindings::bindings::vfio::{
    VFIO_IRQ_SET_ACTION_TRIGGER, VFIO_IRQ_SET_ACTION_UNMASK, VFIO_IRQ_SET_DATA_EVENTFD, VFIO_IRQ_SET_DATA_NONE,
    VFIO_PCI_BAR0_REGION_INDEX, VFIO_PCI_CONFIG_REGION_INDEX, VFIO_PCI_INTX_IRQ_INDEX, VFIO_PCI_MSI_IRQ_INDEX,
};
use vmm_sys_util::eventfd::{EventFd, EFD_CLOEXEC, EFD_NONBLOCK};

use super::super::store::Buffer;
use super::error::OpenError;
use super::messages::Client;
use super::selection::DirectSelection;
use super::transport::{OpenedTransport, Transport};
use super::vfio::{BUS_MASTER, COMMAND, MEMORY_SPACE};
use super::window::{self, NO_ANSWER};

/// How long a server may take to answer. A reset waits for the running operation.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// A request to the thread, which it makes with the client. The thread ends after an error.
type Request = Box<dyn FnOnce(&mut Client) -> io::Result<()> + Send>;

/// The socket.
struct Socket {
    requests: Sender<Request>,
    /// Why the connection cannot be used any more.
    lost: Arc<OnceLock<String>>,
    answer: Duration,
}

impl Socket {
    fn connect(path: &Path, answer: Duration) -> io::Result<Self> {
        let (requests, queue) = channel::<Request>();
        let (connected, first) = sync_channel(1);
        let path = path.to_path_buf();
        let lost = Arc::new(OnceLock::new());
        let told = Arc::clone(&lost);
        std::thread::Builder::new().name("vfio-user".into()).spawn(move || {
            let mut client = match Client::new(&path) {
                Ok(client) => client,
                Err(error) => {
                    let _ = connected.send(Err(error));
                    return;
                }
            };
            if connected.send(Ok(())).is_err() {
                return;
            }
            for request in queue {
                if let Err(error) = request(&mut client) {
                    // A reason that is known already stays.
                    let _ = told.set(format!("the connection to the simulator failed: {error}"));
                    return;
                }
            }
        })?;
        match first.recv_timeout(answer) {
            Ok(Ok(())) => Ok(Self { requests, lost, answer }),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no answer within {answer:?}; the simulator may have another client"),
            )),
        }
    }

    /// Makes a request with the client, without waiting for its end.
    fn post(&self, work: impl FnOnce(&mut Client) -> io::Result<()> + Send + 'static) {
        // If the thread has ended, it has recorded the reason.
        let _ = self.requests.send(Box::new(work));
    }

    /// Makes a request with the client after all posted ones, and waits for its result.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Client) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let lost = || io::Error::other(self.failure().unwrap_or_else(|| "the connection has ended".into()));
        if self.lost.get().is_some() {
            return Err(lost());
        }
        let (tell, answer) = sync_channel(1);
        self.post(move |client| {
            // After the time limit nobody receives the result.
            let _ = tell.send(work(client)?);
            Ok(())
        });
        answer.recv_timeout(self.answer).map_err(|error| {
            if error == RecvTimeoutError::Timeout {
                let _ = self.lost.set(format!("the simulator has not answered for {:?}", self.answer));
            }
            lost()
        })
    }

    fn failure(&self) -> Option<String> {
        self.lost.get().cloned()
    }
}

struct VfioUser {
    socket: Socket,
    event: EventFd,
    /// Bytes of the register window.
    window: u32,
    /// The interrupt that is used: an MSI if there is one, else the line.
    interrupt: u32,
}

/// Connects to a server.
pub(super) fn open(selection: &DirectSelection, path: &Path) -> Result<OpenedTransport, OpenError> {
    Ok(OpenedTransport {
        transport: Box::new(VfioUser::open(selection, path, ANSWER_TIMEOUT)?),
        ranges: vec![0x1000_0000..u64::MAX],
        files: true,
        simulated: true,
    })
}

impl VfioUser {
    fn open(selection: &DirectSelection, path: &Path, answer: Duration) -> Result<Self, OpenError> {
        let socket = Socket::connect(path, answer).map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => "start the simulator first, as nvdla_vp",
                io::ErrorKind::PermissionDenied => "the socket's permissions do not let this user connect",
                _ => "the socket's server is not a vfio-user server, or has another client",
            };
            OpenError::new(selection, "cannot connect to the simulator").because(error).advise(advice)
        })?;
        let failed = |step: &'static str| move |error: io::Error| OpenError::new(selection, step).because(error);
        let event =
            EventFd::new(EFD_NONBLOCK | EFD_CLOEXEC).map_err(failed("cannot make an event for the interrupt"))?;
        let window = socket
            .call(|client| client.region_size(VFIO_PCI_BAR0_REGION_INDEX))
            .map_err(failed("the simulator does not answer"))?;
        if window == 0 {
            return Err(OpenError::new(selection, "the simulated device has no register window (BAR 0)"));
        }
        let count = |index| {
            socket
                .call(move |client| client.interrupts(index))
                .map_err(failed("the simulator does not report its interrupts"))
        };
        let interrupt = if count(VFIO_PCI_MSI_IRQ_INDEX)? > 0 {
            VFIO_PCI_MSI_IRQ_INDEX
        } else if count(VFIO_PCI_INTX_IRQ_INDEX)? > 0 {
            VFIO_PCI_INTX_IRQ_INDEX
        } else {
            return Err(OpenError::new(selection, "the simulated device has no interrupt"));
        };
        let fd = event.as_raw_fd();
        socket
            .call(move |client| {
                let flags = VFIO_IRQ_SET_DATA_EVENTFD | VFIO_IRQ_SET_ACTION_TRIGGER;
                client.set_interrupt(interrupt, flags, &[fd])
            })
            .map_err(failed("the simulator does not accept the event for the interrupt"))?;
        Ok(Self { socket, event, window: u32::try_from(window).unwrap_or(u32::MAX), interrupt })
    }
}

impl Transport for VfioUser {
    fn read(&mut self, offset: u32) -> u32 {
        let read = move |client: &mut Client| {
            let mut bytes = [0; 4];
            client.region_read(VFIO_PCI_BAR0_REGION_INDEX, offset.into(), &mut bytes)?;
            Ok(u32::from_le_bytes(bytes))
        };
        self.socket.call(read).unwrap_or(NO_ANSWER)
    }

    fn write(&mut self, offset: u32, value: u32) {
        let bytes = value.to_le_bytes();
        self.socket.post(move |client| client.region_write(VFIO_PCI_BAR0_REGION_INDEX, offset.into(), &bytes));
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn has_line(&self) -> bool {
        self.interrupt == VFIO_PCI_INTX_IRQ_INDEX
    }

    fn wait(&mut self, limit: Duration) -> io::Result<bool> {
        // The interrupt follows from earlier writes, so they must have arrived before the wait begins.
        if self.socket.call(|_| Ok(())).is_err() {
            return Ok(false);
        }
        Ok(window::wait(&self.event, limit)? && self.event.read().is_ok())
    }

    fn unmask(&mut self) -> io::Result<()> {
        if self.interrupt == VFIO_PCI_INTX_IRQ_INDEX {
            let flags = VFIO_IRQ_SET_DATA_NONE | VFIO_IRQ_SET_ACTION_UNMASK;
            self.socket.post(move |client| client.set_interrupt(VFIO_PCI_INTX_IRQ_INDEX, flags, &[]));
        }
        Ok(())
    }

    fn reset(&mut self) -> io::Result<bool> {
        self.socket.call(|client| {
            client.reset()?;
            // A reset clears the function's command register.
            let command = (MEMORY_SPACE | BUS_MASTER).to_le_bytes();
            client.region_write(VFIO_PCI_CONFIG_REGION_INDEX, COMMAND, &command)
        })?;
        // An earlier interrupt does not belong to this task.
        let _ = self.event.read();
        Ok(true)
    }

    fn map(&mut self, buffer: &Buffer) -> io::Result<()> {
        let file = buffer.file().ok_or(io::ErrorKind::Unsupported)?.try_clone()?;
        let (address, length) = (buffer.address(), buffer.pages().len() as u64);
        self.socket.call(move |client| client.map(address, length, file.as_raw_fd()))
    }

    fn unmap(&mut self, buffer: &Buffer) -> io::Result<()> {
        if self.socket.lost.get().is_some() {
            // The connection is lost, so nothing can be unmapped. The simulator has its own mapping of the file.
            return Ok(());
        }
        let (address, length) = (buffer.address(), buffer.pages().len() as u64);
        self.socket.call(move |client| client.unmap(address, length))
    }

    fn failure(&self) -> Option<String> {
        self.socket.failure()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_server_that_does_not_answer_is_given_up() {
        let path = std::env::temp_dir().join(format!("nvdla-silent-{}", std::process::id()));
        let selection = DirectSelection::VfioUser(path.clone());
        let text = |error: &OpenError| format!("{error}: {:?}", std::error::Error::source(error));
        let missing = VfioUser::open(&selection, &path, Duration::from_millis(50)).map(drop).unwrap_err();
        assert!(text(&missing).contains("start the simulator first"), "{missing}");
        let listener = UnixListener::bind(&path).unwrap();
        let silent = VfioUser::open(&selection, &path, Duration::from_millis(50)).map(drop).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        drop(listener);
        assert!(text(&silent).contains("no answer within 50ms"), "{}", text(&silent));
    }
}
