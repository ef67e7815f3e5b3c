//! Threads for calls of plugins, apart from those that drive tokio.

use std::any::Any;
use std::fmt;
use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::engine::WASM_STACK;

/// Bytes of a thread's stack: what plugins may take, and what the host takes beneath and above them.
const STACK: usize = WASM_STACK + 1024 * 1024;

type Job = Box<dyn FnOnce() + Send>;

/// Runs blocking calls of plugins on threads of their own, so that a slow plugin delays other plugins' calls at most,
/// and never the runtime that drives watches and writes.
///
/// Jobs start in the order in which they came. When the queue is full, [`run`](Executor::run) waits. The threads end
/// once the executor is gone and the jobs that it took are done. Nobody waits for them.
pub struct Executor {
    queue: mpsc::Sender<Job>,
}

/// A job gave no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    /// It panicked. The thread lives on.
    #[error("a call of a plugin panicked in the host: {0}")]
    Panicked(String),
    /// No thread is left to run it, which happens only while the process ends.
    #[error("the threads for calls of plugins have ended")]
    Ended,
}

impl Executor {
    /// Starts `threads` threads; `queue` jobs can wait for them.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn new(threads: NonZeroUsize, queue: NonZeroUsize) -> std::io::Result<Executor> {
        let (sender, receiver) = mpsc::channel::<Job>(queue.get());
        let receiver = Arc::new(Mutex::new(receiver));
        for number in 0..threads.get() {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new()
                .name(format!("plugin-{number}"))
                .stack_size(STACK)
                .spawn(move || work(&receiver))?;
        }
        Ok(Executor { queue: sender })
    }

    /// Runs a job and gives its result. The future needs no particular runtime. It does nothing until it is polled; if
    /// it is dropped before the job has begun, the job is not run, and a job that has begun goes on to its end.
    pub fn run<T, F>(&self, job: F) -> impl Future<Output = Result<T, JobError>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let queue = self.queue.clone();
        async move {
            let (sender, receiver) = oneshot::channel();
            let job = Box::new(move || {
                if sender.is_closed() {
                    return;
                }
                let result = panic::catch_unwind(AssertUnwindSafe(job));
                // Whoever asked may have gone since.
                let _ = sender.send(result.map_err(|panic| JobError::Panicked(text(&*panic))));
            });
            queue.send(job).await.map_err(|_| JobError::Ended)?;
            receiver.await.unwrap_or(Err(JobError::Ended))
        }
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").finish_non_exhaustive()
    }
}

fn work(receiver: &Mutex<mpsc::Receiver<Job>>) {
    loop {
        // The lock is held while waiting: the next thread waits for it instead of for the job, which is the same. No
        // job runs under it, so it is never poisoned.
        let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
        match job {
            Some(job) => job(),
            None => return,
        }
    }
}

fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc as std_mpsc;

    fn executor(threads: usize, queue: usize) -> Executor {
        let number = |number| NonZeroUsize::new(number).expect("not zero");
        Executor::new(number(threads), number(queue)).expect("threads")
    }

    #[tokio::test]
    async fn a_result_comes_back_from_a_thread_of_the_executor() {
        let executor = executor(2, 4);
        let name = executor.run(|| thread::current().name().map(str::to_owned));
        let name = name.await.expect("a result").expect("a name");
        assert!(name.starts_with("plugin-"), "{name}");
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_thread_lives_on() {
        let executor = executor(1, 1);
        let panicked = executor.run(|| -> u32 { panic!("no {}", "luck") }).await;
        assert_eq!(panicked, Err(JobError::Panicked("no luck".into())));
        assert_eq!(executor.run(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_full_queue_lets_the_caller_wait() {
        let executor = executor(1, 1);
        let (begun, has_begun) = oneshot::channel();
        let (release, released) = std_mpsc::channel::<()>();
        let first = tokio::spawn(executor.run(move || {
            let _ = begun.send(());
            released.recv().is_ok()
        }));
        has_begun.await.expect("the first job to begin");

        let mut second = Box::pin(executor.run(|| 2));
        let mut third = Box::pin(executor.run(|| 3));
        assert!(futures_pending(second.as_mut()).await);
        assert!(futures_pending(third.as_mut()).await);
        assert_eq!(executor.queue.capacity(), 0);

        release.send(()).expect("the first job to wait");
        assert_eq!(first.await.expect("no panic"), Ok(true));
        assert_eq!(second.await, Ok(2));
        assert_eq!(third.await, Ok(3));
    }

    #[tokio::test]
    async fn a_job_that_nobody_waits_for_is_not_begun() {
        let executor = executor(1, 4);
        let (begun, has_begun) = oneshot::channel();
        let (release, released) = std_mpsc::channel::<()>();
        let first = tokio::spawn(executor.run(move || {
            let _ = begun.send(());
            released.recv().is_ok()
        }));
        has_begun.await.expect("the first job to begin");

        let ran = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&ran);
        let mut dropped = Box::pin(executor.run(move || mark.store(true, Ordering::SeqCst)));
        assert!(futures_pending(dropped.as_mut()).await);
        drop(dropped);

        release.send(()).expect("the first job to wait");
        assert_eq!(first.await.expect("no panic"), Ok(true));
        assert_eq!(executor.run(|| ()).await, Ok(()));
        assert!(!ran.load(Ordering::SeqCst));
    }

    /// Polls a future once, and says whether it has nothing yet.
    async fn futures_pending<F: Future>(mut future: std::pin::Pin<&mut F>) -> bool {
        std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending())).await
    }
}
