//! Tests of the cache, of the default sources and of their errors.

mod sources;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as StdMutex};
use std::time::UNIX_EPOCH;

use futures_util::FutureExt as _;
use tokio::sync::Semaphore;

use super::*;

/// A source that returns one result after the other, and counts its calls.
#[derive(Debug, Clone)]
struct Script {
    results: Arc<StdMutex<VecDeque<Loaded>>>,
    calls: Arc<AtomicUsize>,
    /// Has a permit for each call that may end.
    gate: Arc<Semaphore>,
}

impl Script {
    fn new(results: impl IntoIterator<Item = Loaded>) -> Self {
        let results = Arc::new(StdMutex::new(results.into_iter().collect()));
        Self { results, calls: Arc::default(), gate: Arc::new(Semaphore::new(100)) }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl ProvideCredentials for Script {
    fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
    where
        Self: 'a,
    {
        future::ProvideCredentials::new(async {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
            self.results.lock().unwrap().pop_front().expect("a result in the script")
        })
    }
}

fn credentials(id: &str, expiry: Option<SystemTime>) -> Loaded {
    Ok(Credentials::new(id, "hunter2", None, expiry, "test"))
}

fn in_future(seconds: u64) -> Option<SystemTime> {
    Some(SystemTime::now() + Duration::from_secs(seconds))
}

async fn id(cached: &CachedCredentials) -> String {
    cached.get().await.unwrap().access_key_id().to_owned()
}

#[tokio::test]
async fn credentials_are_loaded_once_until_they_expire() {
    for expiry in [None, in_future(3600)] {
        let script = Script::new([credentials("a", expiry)]);
        let cached = CachedCredentials::new(script.clone());
        assert_eq!(script.calls(), 0);
        for _ in 0..3 {
            assert_eq!(id(&cached).await, "a");
        }
        assert_eq!(script.calls(), 1);
    }
}

#[tokio::test]
async fn credentials_are_loaded_again_at_the_end_of_their_time() {
    let expiries = [Some(UNIX_EPOCH), None, in_future(3600)];
    let ids = ["a", "b", "c"];
    let script = Script::new(ids.iter().zip(expiries).map(|(id, expiry)| credentials(id, expiry)));
    let cached = CachedCredentials::new(script.clone());
    for expected in ids {
        assert_eq!(id(&cached).await, expected);
        assert_eq!(id(&cached).await, expected);
        cached.kept.lock().await.as_mut().unwrap().1 = SystemTime::now();
    }
    assert_eq!(script.calls(), 3);
}

#[test]
fn credentials_are_kept_until_shortly_before_they_expire() {
    let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
    let after = |seconds| now.checked_add(Duration::from_secs(seconds));
    assert_eq!(keep_until(now, None), after(900));
    for (expiry, expected) in [(0, 5), (30, 5), (60, 5), (65, 5), (66, 6), (3600, 3540)] {
        assert_eq!(keep_until(now, after(expiry)), after(expected), "{expiry}");
    }
    assert_eq!(keep_until(now, Some(UNIX_EPOCH)), after(5));
}

#[tokio::test]
async fn concurrent_calls_load_once() {
    let script = Script::new([credentials("a", None)]);
    let cached = CachedCredentials::new(script.clone());
    let ids = futures_util::future::join_all((0..10).map(|_| id(&cached))).await;
    assert_eq!(ids, ["a"; 10]);
    assert_eq!(script.calls(), 1);
}

#[tokio::test]
async fn dropped_load_is_started_again() {
    let script = Script::new([credentials("a", None)]);
    script.gate.forget_permits(100);
    let cached = CachedCredentials::new(script.clone());
    let mut first = Box::pin(cached.get());
    assert!((&mut first).now_or_never().is_none());
    let mut second = Box::pin(cached.get());
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    script.gate.add_permits(1);
    assert_eq!(second.await.unwrap().access_key_id(), "a");
    assert_eq!(script.calls(), 2);
}

#[tokio::test]
async fn error_is_not_kept() {
    let missing = Err(CredentialsError::not_loaded("no file"));
    let script = Script::new([missing, credentials("a", None)]);
    let cached = CachedCredentials::new(script.clone());
    assert_eq!(cached.get().await.unwrap_err().kind(), "Authentication");
    assert_eq!(id(&cached).await, "a");
}

#[test]
fn debug_shows_no_secret() {
    let cached = CachedCredentials::new(credentials("a", None).unwrap());
    assert_eq!(format!("{cached:?}"), "CachedCredentials { .. }");
}

#[track_caller]
fn check(error: CredentialsError, is_sent: bool, expected: &str) {
    let error = load_error(&error);
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.was_sent(), is_sent);
    assert!(error.takes_no_tokens());
    assert_eq!(error.is_retryable(), !is_sent);
}

#[test]
fn errors_name_the_cause_and_the_fix() {
    check(
        CredentialsError::not_loaded("no file"),
        true,
        "authentication failed: there are no AWS credentials (the credential provider was not enabled: no file): set \
         AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, choose a profile with AWS_PROFILE, or give the machine a role",
    );
    check(
        CredentialsError::provider_error("AccessDenied: not authorized to perform sts:AssumeRole"),
        true,
        "authentication failed: the AWS credentials cannot be loaded (an error occurred while loading credentials: \
         AccessDenied: not authorized to perform sts:AssumeRole): check them with `aws sts get-caller-identity`, and \
         sign in again with `aws sso login` if the profile uses SSO",
    );
    check(
        CredentialsError::provider_timed_out(Duration::from_secs(5)),
        false,
        "network error: the source of the AWS credentials cannot be reached: credentials provider timed out after 5 \
         seconds",
    );
    check(
        CredentialsError::provider_error(ConnectorError::io("connection refused".into())),
        false,
        "network error: the source of the AWS credentials cannot be reached: an error occurred while loading \
         credentials: io error: connection refused",
    );
}
