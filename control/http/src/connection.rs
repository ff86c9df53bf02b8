//! Open connections and their bounds. Invariant: at most `CONNECTIONS_MAX` exist, on at most a part
//! of the process's descriptors, and one that has no request in progress can be closed at any time.

use crate::answers::AnswerBudget;
use crate::limits::{
    BODY_BYTES_MAX, CONNECTION_LIFE, CONNECTIONS_MAX, CONNECTIONS_MIN, DESCRIPTORS_PART, Deadlines,
    LAST_REQUEST_GRACE,
};
use crate::request_origin::RequestOrigin;
use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_LENGTH;
use axum::http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use nix::sys::resource::{Resource, getrlimit};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::task::{AbortHandle, JoinSet};
use tower::ServiceExt as _;

struct OpenConnection {
    /// A request is in progress.
    busy: Arc<AtomicBool>,
    abort: AbortHandle,
}

/// All connections of one server, oldest first.
pub(crate) struct Connections {
    router: Router,
    stopped: watch::Receiver<bool>,
    deadlines: Deadlines,
    answers: AnswerBudget,
    tasks: JoinSet<()>,
    open: VecDeque<OpenConnection>,
}

impl Connections {
    pub(crate) fn new(
        router: Router,
        stopped: watch::Receiver<bool>,
        deadlines: Deadlines,
    ) -> Self {
        Self {
            router,
            stopped,
            deadlines,
            answers: AnswerBudget::new(),
            tasks: JoinSet::new(),
            open: VecDeque::new(),
        }
    }

    /// Becomes true when the server is to stop.
    pub(crate) fn stopped(&self) -> watch::Receiver<bool> {
        self.stopped.clone()
    }

    /// Takes over an accepted connection, closing the oldest idle one at the limit.
    pub(crate) fn serve(&mut self, stream: TcpStream, from: SocketAddr) {
        while self.tasks.try_join_next().is_some() {}
        let most = connections_max();
        if self.open.len() >= most {
            self.open.retain(|open| !open.abort.is_finished());
        }
        if self.open.len() >= most && !self.close_oldest_idle() {
            return;
        }
        let busy = Arc::new(AtomicBool::new(false));
        let router = self.router.clone();
        let (deadlines, stopped) = (self.deadlines, self.stopped.clone());
        let answers = self.answers.clone();
        let peer = (stream, RequestOrigin(from));
        let task = serve_connection(peer, router, (deadlines, answers), busy.clone(), stopped);
        let abort = self.tasks.spawn(task);
        self.open.push_back(OpenConnection { busy, abort });
    }

    fn close_oldest_idle(&mut self) -> bool {
        let idle = self.open.iter().position(|open| !open.busy.load(Relaxed));
        let Some(open) = idle.and_then(|index| self.open.remove(index)) else {
            return false;
        };
        open.abort.abort();
        true
    }

    /// Waits for requests in progress, at most `grace`; the rest is cut.
    pub(crate) async fn finish(mut self, grace: Duration) {
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, all).await.is_err() {
            self.tasks.abort_all();
        }
    }
}

/// Connections that a server may have. Asked each time: programs raise their limit of descriptors.
fn connections_max() -> usize {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).unwrap_or((u64::MAX, u64::MAX));
    part_of(usize::try_from(soft).unwrap_or(usize::MAX))
}

fn part_of(descriptors: usize) -> usize {
    (descriptors / DESCRIPTORS_PART).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

async fn serve_connection(
    (stream, from): (TcpStream, RequestOrigin),
    router: Router,
    (deadlines, answers): (Deadlines, AnswerBudget),
    busy: Arc<AtomicBool>,
    mut stopped: watch::Receiver<bool>,
) {
    let slow = Arc::new(Notify::new());
    let too_slow = slow.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(from);
        let (router, answers) = (router.clone(), answers.clone());
        let (busy, slow) = (Arc::clone(&busy), slow.clone());
        async move {
            busy.store(true, Relaxed);
            let answer = answer(router, request, deadlines).await;
            busy.store(false, Relaxed);
            Ok::<_, Infallible>(answers.count(answer, &slow))
        }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let life = tokio::time::sleep(CONNECTION_LIFE);
    // Errors of a connection are the peer's business: it has gone or broke the protocol.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = too_slow.notified() => return,
        () = life => {}
        _ = stopped.changed() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(LAST_REQUEST_GRACE, connection).await;
}

async fn answer(
    router: Router,
    request: Request<Incoming>,
    deadlines: Deadlines,
) -> Response<Body> {
    let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if length.and_then(|text| text.parse().ok()).is_some_and(|bytes: usize| bytes > BODY_BYTES_MAX)
    {
        return refusal(StatusCode::PAYLOAD_TOO_LARGE, "Request body is too large");
    }
    let request = request.map(Body::new);
    match tokio::time::timeout(deadlines.request, router.oneshot(request)).await {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => refusal(StatusCode::SERVICE_UNAVAILABLE, "Request took too long"),
    }
}

fn refusal(status: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_of_the_descriptors_is_for_connections() {
        let parts = [64, 1024, 65_536, usize::MAX].map(part_of);
        assert_eq!(parts, [16, 128, CONNECTIONS_MAX, CONNECTIONS_MAX]);
    }
}
