//! Answers in Mooncake's forms. Invariant: content types and key order are those of Mooncake, since
//! strict clients compare them.

use crate::master_view::AdminRefusal;
use axum::body::Body;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_lite::stream;
use perigee_schemas::Status;
use serde::Serialize;
use std::convert::Infallible;

const JSON: &str = "application/json; charset=utf-8";

#[derive(Serialize)]
struct ErrorBody<'a> {
    success: bool,
    error_code: i32,
    error_message: &'a str,
}

/// Text with the content type of metrics.
pub(crate) fn text(body: String) -> Response {
    ([(CONTENT_TYPE, perigee_metrics::exposition::CONTENT_TYPE)], body).into_response()
}

/// As [`text`], written piece by piece.
pub(crate) fn text_stream(body: Body) -> Response {
    ([(CONTENT_TYPE, perigee_metrics::exposition::CONTENT_TYPE)], body).into_response()
}

/// JSON documents, one a line, written piece by piece.
pub(crate) fn json_lines(body: Body) -> Response {
    ([(CONTENT_TYPE, "application/x-ndjson")], body).into_response()
}

/// Text with the content type of metrics, in pieces that are made one by one.
pub(crate) fn text_pieces(pieces: impl Iterator<Item = String> + Send + 'static) -> Response {
    in_pieces(perigee_metrics::exposition::CONTENT_TYPE, pieces)
}

/// The same as OpenMetrics.
pub(crate) fn openmetrics_pieces(
    pieces: impl Iterator<Item = String> + Send + 'static,
) -> Response {
    in_pieces(perigee_metrics::exposition::OPENMETRICS_CONTENT_TYPE, pieces)
}

/// A JSON body in pieces that are made one by one.
pub(crate) fn json_pieces(pieces: impl Iterator<Item = String> + Send + 'static) -> Response {
    in_pieces(JSON, pieces)
}

/// The next piece is made when the one before has been taken, so a slow reader keeps one here.
fn in_pieces(
    content_type: &'static str,
    mut pieces: impl Iterator<Item = String> + Send + 'static,
) -> Response {
    let first = pieces.next().unwrap_or_default();
    let body = match pieces.next() {
        None => Body::from(first),
        Some(second) => {
            let all = [first, second].into_iter().chain(pieces);
            Body::from_stream(stream::iter(all.map(Ok::<_, Infallible>)))
        }
    };
    ([(CONTENT_TYPE, content_type)], body).into_response()
}

/// As [`json`], written piece by piece.
pub(crate) fn json_stream(body: Body) -> Response {
    ([(CONTENT_TYPE, JSON)], body).into_response()
}

/// Text with a plain content type.
pub(crate) fn word(body: &'static str) -> Response {
    body.into_response()
}

/// A JSON body.
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(bytes) => (status, [(CONTENT_TYPE, JSON)], bytes).into_response(),
        Err(error) => {
            tracing::error!(%error, "An answer could not be written as JSON");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// One value of a JSON body that is written in pieces.
pub(crate) fn row(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "A row of an answer could not be written as JSON");
        "null".to_owned()
    })
}

/// A JSON error with its own text.
pub(crate) fn error_text(http: StatusCode, status: Status, message: &str) -> Response {
    let error_code = status.code();
    json(http, &ErrorBody { success: false, error_code, error_message: message })
}

/// The answer to a request that makes no sense.
pub(crate) fn invalid(message: &str) -> Response {
    error_text(StatusCode::BAD_REQUEST, Status::InvalidParams, message)
}

/// A JSON error with the reason of a refusal.
pub(crate) fn refusal(refused: AdminRefusal) -> Response {
    error_text(http_of(refused.status), refused.status, &refused.reason)
}

/// A JSON error whose text is the status name and whose HTTP status is the one of the table.
pub(crate) fn error(status: Status) -> Response {
    error_text(http_of(status), status, status.name())
}

fn http_of(status: Status) -> StatusCode {
    StatusCode::from_u16(status.http()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The answer of a feature that is switched off: 409 and -1011.
pub(crate) fn switched_off() -> Response {
    let status = Status::UnavailableInCurrentMode;
    error_text(StatusCode::CONFLICT, status, status.name())
}
