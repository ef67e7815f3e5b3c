//! Waiting for what a cluster brings about in its own time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Short against all that is waited for, and long against one request.
const INTERVAL: Duration = Duration::from_millis(20);

/// Tries until there is a value, and fails with `what` if that takes longer than `limit`.
///
/// An error does not end the waiting, since an API server that is just starting gives some; the last one is told
/// when the time is over.
pub async fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut attempt: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let begin = Instant::now();
    loop {
        // An attempt that hangs must not outlast the limit either.
        let left = limit.saturating_sub(begin.elapsed()).max(INTERVAL);
        let problem = match tokio::time::timeout(left, attempt()).await {
            Ok(Ok(Some(value))) => return Ok(value),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some(format!("{error:#}")),
            Err(_) => Some("no answer".to_owned()),
        };
        if begin.elapsed() >= limit {
            match problem {
                Some(problem) => bail!("waited {limit:?} in vain for {what}; last problem: {problem}"),
                None => bail!("waited {limit:?} in vain for {what}"),
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_value_that_comes_late_is_found() {
        let mut attempts = 0;
        let found = wait_for("three attempts", Duration::from_secs(5), async || {
            attempts += 1;
            match attempts {
                1 => bail!("not there yet"),
                2 => Ok(None),
                _ => Ok(Some(attempts)),
            }
        });
        assert_eq!(found.await.unwrap(), 3);
    }

    #[tokio::test]
    async fn waiting_in_vain_names_what_was_waited_for() {
        let limit = Duration::from_millis(50);
        let nothing = wait_for::<()>("rain", limit, async || Ok(None)).await.unwrap_err();
        assert_eq!(nothing.to_string(), "waited 50ms in vain for rain");
        let failing = wait_for::<()>("rain", limit, async || bail!("no clouds"))
            .await
            .unwrap_err();
        assert_eq!(
            failing.to_string(),
            "waited 50ms in vain for rain; last problem: no clouds"
        );
        let hanging = wait_for::<()>("rain", limit, async || std::future::pending().await)
            .await
            .unwrap_err();
        assert_eq!(
            hanging.to_string(),
            "waited 50ms in vain for rain; last problem: no answer"
        );
    }
}
