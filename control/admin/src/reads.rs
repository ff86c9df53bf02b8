//! The guard of reading routes.
//! Invariant: a parameter that a route does not know is refused. It would be passed over otherwise,
//! and the answer would be about the keys of another tenant, say.

use crate::parameters;
use crate::query::check_names;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Refuses a reading request with a parameter that its route does not know. A tenant was judged
/// before.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let uri = request.uri();
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    let known = parameters::known(uri.path()).filter(|_| is_read);
    let judged = known.map_or(Ok(()), |known| check_names(uri.query(), &known, parameters::TENANT));
    match judged {
        Ok(()) => next.run(request).await,
        Err(flaw) => Response::from(flaw).into_response(),
    }
}
