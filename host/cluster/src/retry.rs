//! Waiting for an API server that is busy.

use std::time::Duration;

use http::header::{HeaderMap, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use tower::retry::Policy;

/// How long a request is put off in all. Whoever asked is told after that, and asks again when it likes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
/// The shortest delay, which doubles each time, whatever a server says: `Retry-After: 0` must not make this spin.
const SHORTEST: Duration = Duration::from_millis(200);
/// The delay where a server says that it has enough, and not for how long.
const UNSAID: Duration = Duration::from_secs(1);

/// Sends a request again that an API server put off, at the time that it names.
#[derive(Clone, Debug)]
pub(crate) struct WhenBusy {
    waited: Duration,
    /// Doubles with each attempt.
    growth: u32,
}

impl Default for WhenBusy {
    fn default() -> Self {
        WhenBusy {
            waited: Duration::ZERO,
            growth: 1,
        }
    }
}

impl WhenBusy {
    /// How long to wait before the next attempt; none if there should be none.
    fn delay(&mut self, method: &Method, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
        let asked = put_off(method, status, headers).filter(|asked| *asked <= PATIENCE)?;
        let delay = asked.max(SHORTEST * self.growth);
        self.growth = self.growth.saturating_mul(2);
        // Those who were put off together should not come back together.
        let delay = delay.mul_f64(1.0 + 0.2 * fastrand::f64());
        self.waited += delay;
        (self.waited <= PATIENCE).then_some(delay)
    }
}

/// For how long an answer puts a request off. One that writes is sent again only if it is certain that nothing came of it.
fn put_off(method: &Method, status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let after = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .map(Duration::from_secs);
    match status {
        StatusCode::TOO_MANY_REQUESTS => Some(after.unwrap_or(UNSAID)),
        status if status.is_server_error() && method == Method::GET => after,
        _ => None,
    }
}

impl<B, E> Policy<Request<Body>, Response<B>, E> for WhenBusy {
    type Future = tokio::time::Sleep;

    fn retry(&mut self, request: &mut Request<Body>, answer: &mut Result<Response<B>, E>) -> Option<Self::Future> {
        let answer = answer.as_ref().ok()?;
        let delay = self.delay(request.method(), answer.status(), answer.headers())?;
        Some(tokio::time::sleep(delay))
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        let mut copy = Request::new(request.body().try_clone()?);
        *copy.method_mut() = request.method().clone();
        *copy.uri_mut() = request.uri().clone();
        *copy.version_mut() = request.version();
        *copy.headers_mut() = request.headers().clone();
        *copy.extensions_mut() = request.extensions().clone();
        Some(copy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delay(policy: &mut WhenBusy, method: &Method, status: u16, after: Option<&str>) -> Option<Duration> {
        let status = StatusCode::from_u16(status).expect("a status");
        let headers = after.map(|after| (RETRY_AFTER, after.parse().expect("a header")));
        policy.delay(method, status, &headers.into_iter().collect())
    }

    fn first(method: &Method, status: u16, after: Option<&str>) -> Option<Duration> {
        delay(&mut WhenBusy::default(), method, status, after)
    }

    #[test]
    fn a_busy_server_is_waited_for_as_long_as_it_says() {
        for (status, after) in [(429, Some("3")), (503, Some("3")), (500, Some(" 3"))] {
            let delay = first(&Method::GET, status, after).expect("it is tried again");
            assert!((3.0..3.7).contains(&delay.as_secs_f64()), "{status}: {delay:?}");
        }
        assert!(first(&Method::GET, 429, None).is_some());
    }

    #[test]
    fn what_is_not_put_off_is_told_at_once() {
        for (status, after) in [
            (200, None),
            (404, Some("1")),
            (503, None),
            (500, Some("Wed, 21 Oct 2026 07:28:00 GMT")),
        ] {
            assert_eq!(first(&Method::GET, status, after), None, "{status} {after:?}");
        }
    }

    #[test]
    fn a_write_that_may_have_been_carried_out_is_never_sent_again() {
        for method in [Method::POST, Method::PATCH, Method::PUT, Method::DELETE] {
            assert!(first(&method, 429, Some("1")).is_some(), "{method}");
            for status in [500, 503, 504] {
                assert_eq!(first(&method, status, Some("1")), None, "{method} {status}");
            }
        }
    }

    #[test]
    fn patience_ends() {
        assert_eq!(first(&Method::GET, 429, Some("31")), None);
        assert_eq!(first(&Method::GET, 429, Some(&u64::MAX.to_string())), None);
        for after in ["0", "1", "14"] {
            let mut policy = WhenBusy::default();
            let waits: Vec<_> = std::iter::from_fn(|| delay(&mut policy, &Method::GET, 429, Some(after)))
                .take(100)
                .collect();
            let total: Duration = waits.iter().sum();
            assert!(
                total <= PATIENCE && !waits.is_empty() && waits.len() < 20,
                "{after}: {waits:?}"
            );
        }
    }

    #[test]
    fn a_copy_of_a_request_is_the_same_request() {
        let request = Request::patch("/api?fieldManager=m")
            .header("content-type", "application/apply-patch+yaml")
            .body(Body::from(b"{}".to_vec()))
            .expect("a request");
        let copy = Policy::<_, Response<()>, ()>::clone_request(&mut WhenBusy::default(), &request).expect("a copy");
        assert_eq!((copy.method(), copy.uri()), (request.method(), request.uri()));
        assert_eq!((copy.headers(), copy.version()), (request.headers(), request.version()));
    }
}
