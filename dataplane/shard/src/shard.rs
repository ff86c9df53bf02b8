//! A shard in use: an executor on loan, with a main task and a bounded stop.

use crate::executor::ExecutorOptions;
use crate::executor::error::ExecutorError;
use crate::limits::POLL_DEFAULT;
use crate::mailbox::{Job, Mailbox};
use crate::pool;
use crate::stream::ShardEnvironment;
use perigee_reactor::Congestion;
use std::future::Future;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Where and how a shard runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOptions {
    /// Thread name, at most 15 bytes are shown by the kernel.
    pub name: String,
    /// CPU to pin to; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
    /// How long to poll after the last completion before sleeping.
    pub poll: Duration,
}

impl ShardOptions {
    /// An unpinned shard with the default poll window.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), cpu: None, poll: POLL_DEFAULT }
    }
}

/// The main task of a shard did not end in time; its executor is not used again.
#[derive(Debug, thiserror::Error)]
#[error("Shard {name} did not stop within {waited:?}")]
pub struct StopError {
    name: String,
    waited: Duration,
}

/// An executor running a main task.
#[derive(Debug)]
pub struct Shard {
    options: ExecutorOptions,
    mailbox: Mailbox,
    ended: Mutex<Receiver<()>>,
}

impl Shard {
    /// Runs `main` on an executor. The shard ends when `main` has; tell it to end by a job or a
    /// flag it watches.
    ///
    /// # Errors
    /// The executor cannot be started; the message says what to change.
    pub fn start<F, Fut>(options: ShardOptions, main: F) -> Result<Self, ExecutorError>
    where
        F: FnOnce(ShardEnvironment) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let options = ExecutorOptions { name: options.name, cpu: options.cpu, poll: options.poll };
        let mailbox = pool::take(&options)?;
        let (end, ended) = channel();
        mailbox.post(Box::new(move |environment: &ShardEnvironment| {
            // Not that of the shard that had this executor before.
            environment.set_congestion(Congestion::default());
            let task = main(environment.clone());
            crate::environment::Environment::spawn(environment, async move {
                task.await;
                let _ = end.send(());
            });
        }));
        Ok(Self { options, mailbox, ended: Mutex::new(ended) })
    }

    /// The way to post jobs from any thread.
    pub fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// Posts a job; false if the shard is gone.
    pub fn post(&self, job: Job) -> bool {
        self.mailbox.post(job)
    }

    /// Waits until the main task has ended and gives the executor back.
    ///
    /// # Errors
    /// The main task is still running when `deadline` has passed.
    pub fn join(self, deadline: Duration) -> Result<(), StopError> {
        let ended = self.ended.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        match ended.recv_timeout(deadline) {
            Ok(()) => {
                pool::give_back(self.options, self.mailbox);
                Ok(())
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                Err(StopError { name: self.options.name, waited: deadline })
            }
        }
    }
}

#[cfg(test)]
#[expect(unsafe_code, reason = "a test receives into memory of its own")]
mod tests {
    use super::*;
    use crate::environment::{Environment, Listener, Stream};
    use perigee_reactor::Message;
    use std::cell::Cell;
    use std::os::fd::AsFd;
    use std::rc::Rc;
    use std::sync::{Arc, mpsc};

    const LONG: Duration = Duration::from_secs(20);

    fn echo_shard(name: &str) -> (Shard, std::net::SocketAddr) {
        let (send, receive) = mpsc::channel();
        let shard = Shard::start(ShardOptions::named(name), move |environment| async move {
            let listener = environment.listen("127.0.0.1:0".parse().unwrap(), false).unwrap();
            send.send(listener.local_address().unwrap()).unwrap();
            let stream = listener.accept().await.unwrap();
            loop {
                let (result, buffer) = stream.receive(Vec::with_capacity(4096)).await;
                if result.unwrap() == 0 {
                    return;
                }
                let mut message = Message::new();
                message.push_owned(buffer);
                stream.send_message(message).await.unwrap();
            }
        })
        .unwrap();
        (shard, receive.recv_timeout(LONG).unwrap())
    }

    #[test]
    fn two_shards_talk_and_their_executors_are_used_again() {
        let threads = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mut after_first = 0;
        for round in 0..5 {
            let (server, address) = echo_shard("test-echo");
            let client =
                Shard::start(ShardOptions::named("test-client"), move |environment| async move {
                    let stream = environment.connect(address).await.unwrap();
                    for step in 0..200u32 {
                        let mut message = Message::new();
                        message.push_owned(step.to_le_bytes());
                        stream.send_message(message).await.unwrap();
                        let mut back = [0u8; 4];
                        let mut message = Message::new();
                        // SAFETY: `back` outlives the awaited operation.
                        unsafe { message.push_borrowed(back.as_mut_ptr(), 4) };
                        stream.receive_message(message).await.unwrap();
                        assert_eq!(u32::from_le_bytes(back), step);
                    }
                    environment.sleep(Duration::from_millis(2)).await;
                    stream.shutdown();
                })
                .unwrap();
            client.join(LONG).unwrap();
            server.join(LONG).unwrap();
            if round == 0 {
                after_first = threads();
            }
        }
        assert!(threads() <= after_first + 2, "descriptors grow: {after_first} then {}", threads());
    }

    #[test]
    fn jobs_timers_and_yields_under_load_never_stall_a_shard() {
        let (send, receive) = mpsc::channel();
        let shard =
            Shard::start(ShardOptions::named("test-stress"), move |environment| async move {
                for step in 0..3000u64 {
                    let pause = Duration::from_micros(environment.random() % 700);
                    environment.sleep(pause).await;
                    let _ = send.send(step);
                }
            })
            .unwrap();
        let mailbox = shard.mailbox();
        let (pong, pongs) = mpsc::channel();
        let mut seen = 0;
        while seen < 2999 {
            let pong = pong.clone();
            assert!(mailbox.post(Box::new(move |_| pong.send(()).unwrap())));
            pongs.recv_timeout(LONG).expect("a posted job runs");
            seen = receive.try_iter().last().unwrap_or(seen);
        }
        shard.join(LONG).unwrap();
    }

    #[test]
    fn tasks_that_wake_only_each_other_are_not_slept_over() {
        let shard = Shard::start(ShardOptions::named("test-yield"), |environment| async move {
            // The other one is woken by the first one's end, after many rounds without a timer
            // or any I/O.
            let (done, wait) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(false)));
            let (finished, other) = (done.clone(), wait.clone());
            environment.spawn(async move {
                for _ in 0..1000 {
                    futures_lite::future::yield_now().await;
                }
                finished.set(true);
            });
            environment.spawn(async move {
                while !done.get() {
                    futures_lite::future::yield_now().await;
                }
                other.set(true);
            });
            while !wait.get() {
                futures_lite::future::yield_now().await;
            }
        })
        .unwrap();
        shard.join(LONG).unwrap();
    }

    #[test]
    fn events_of_another_eventfd_wake_a_sleeping_shard_each_time() {
        use nix::sys::eventfd::{EfdFlags, EventFd};
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        let event = Arc::new(EventFd::from_value_and_flags(0, flags).unwrap());
        let (send, heard) = mpsc::channel();
        let watched = event.clone();
        let shard =
            Shard::start(ShardOptions::named("test-eventfd"), move |environment| async move {
                for _ in 0..50 {
                    environment.readable(watched.as_fd()).await.unwrap();
                    watched.read().unwrap();
                    send.send(()).unwrap();
                }
            })
            .unwrap();
        for round in 0..50 {
            event.write(1).unwrap();
            let heard = heard.recv_timeout(LONG);
            heard.unwrap_or_else(|error| panic!("event {round} is heard: {error}"));
        }
        shard.join(LONG).unwrap();
    }
}
