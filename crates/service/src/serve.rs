//! Serving a listener: bounded connections, peers that neither send nor take anything cut off, and
//! an end that is bounded too.

use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{debug, warn};

use crate::Service;
use crate::patience::Patient;

/// A peer may take this long for the head of a later request, and stay idle before it; longer than
/// the usual time between renewals, so that holders keep their connection.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of a head.
const MOST_HEAD_BYTES: usize = 32 * 1024;

/// The system may be out of descriptors for a while; asking at once again would only burn its time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a service ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections that were cut because their requests outlasted [`Limits::drain`](crate::Limits).
    pub cut: usize,
}

impl Service {
    /// Serves until `shutdown` completes: first readiness ends and no connection is accepted any
    /// more, then requests under way are finished, for [`Limits::drain`](crate::Limits::drain) at
    /// most.
    ///
    /// Only after it has returned may the lease of the generator be given back.
    ///
    /// # Errors
    ///
    /// The system's, if the listener cannot be asked for its address: bind it anew.
    pub async fn serve<F>(self, listener: TcpListener, shutdown: F) -> io::Result<Drained>
    where
        F: Future<Output = ()>,
    {
        debug!(address = %listener.local_addr()?, "serving");
        let limits = self.shared.parts.limits;
        let service = TowerToHyperService::new(self.router());
        let (stop, stopping) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept(), if connections.len() < limits.connections => {
                    match accepted {
                        Ok((stream, _)) => {
                            // Answers are small and written at once: waiting for more only delays
                            // them.
                            let _ = stream.set_nodelay(true);
                            let stream = Patient::new(stream, limits.write_timeout);
                            let first = limits.first_head_timeout;
                            let (service, stopping) = (service.clone(), stopping.clone());
                            connections.spawn(talk(stream, first, service, stopping));
                        }
                        Err(error) => {
                            warn!(%error, "no connection could be accepted");
                            tokio::time::sleep(ACCEPT_PAUSE).await;
                        }
                    }
                }
            }
        }
        self.shared.stop();
        drop(listener);
        drop(stop);
        let finished = async { while connections.join_next().await.is_some() {} };
        let in_time = tokio::time::timeout(limits.drain, finished).await.is_ok();
        let cut = if in_time { 0 } else { connections.len() };
        connections.shutdown().await;
        Ok(Drained { cut })
    }
}

/// One connection, to its end or to that of the request under way when the service stops. A peer
/// that has not asked yet is waited for neither then nor for longer than `first`.
async fn talk(
    stream: Patient<TcpStream>,
    first: Duration,
    service: TowerToHyperService<axum::Router>,
    mut stopping: watch::Receiver<()>,
) {
    let asked = AtomicBool::new(false);
    let service = service_fn(|request| {
        // ORDERING: Relaxed; it is set and read by one task.
        asked.store(true, Ordering::Relaxed);
        service.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_header_size(MOST_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let mut first = pin!(tokio::time::sleep(first));
    let (mut stopped, mut overdue) = (false, false);
    let ended = loop {
        tokio::select! {
            // What has arrived is read before it is judged whether anything has.
            biased;
            ended = connection.as_mut() => break ended,
            // The sender is dropped to say so.
            _ = stopping.changed(), if !stopped => {
                stopped = true;
                connection.as_mut().graceful_shutdown();
            }
            () = first.as_mut(), if !overdue => overdue = true,
        }
        // ORDERING: Relaxed; see above.
        if !asked.load(Ordering::Relaxed) {
            return;
        }
    };
    if let Err(error) = ended {
        // Peers come and go; only kinds of errors are told, never what was sent.
        debug!(%error, "a connection ended");
    }
}
