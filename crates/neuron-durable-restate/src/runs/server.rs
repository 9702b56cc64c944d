//! Requests to the two ports of a Restate server.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use hyper::header::{ACCEPT, CONTENT_TYPE};
use hyper::{Method, Request};
use neuron_runtime::RunsError;
use neuron_types::stored_json;
use restate_sdk::ingress::RequestExecutor;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::rows::{Entry, Row, Run};
use crate::continuation;
use crate::definition::RUN;
use crate::plain_http::PlainHttp;
use crate::{RunOutcome, register};

/// The columns of an invocation that a [`Row`] has.
const COLUMNS: &str = "id, status, completion_result, completion_failure, \
                       last_failure, last_failure_error_code, invoked_by_id, created_at, modified_at";

#[derive(Clone)]
pub(super) struct Server<E> {
    service: String,
    ingress: String,
    admin: String,
    client: E,
}

impl Server<PlainHttp> {
    pub(super) fn new(service: String, ingress: String, admin: String) -> Self {
        let trimmed = |url: String| url.trim_end_matches('/').to_owned();
        Self { service, ingress: trimmed(ingress), admin: trimmed(admin), client: PlainHttp }
    }

    pub(super) fn with_client<E>(self, client: E) -> Server<E> {
        let Self { service, ingress, admin, .. } = self;
        Server { service, ingress, admin, client }
    }
}

impl<E: RequestExecutor> Server<E> {
    /// Returns the runs of the service, the oldest first, or the run with this id.
    pub(super) async fn runs(&self, id: Option<&str>) -> Result<Vec<Run>, RunsError> {
        let service = quoted(&self.service);
        let object = quoted(&register::name(&self.service));
        let (mut of_run, mut of_key) = (format!("target_handler_name = '{RUN}'"), String::new());
        if let Some(id) = id {
            // Restate takes no other text for the id of an invocation.
            if !id.starts_with("inv_") || !id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            {
                return Ok(Vec::new());
            }
            of_run = format!("{of_run} AND id = '{id}'");
            of_key = format!("AND service_key = '{id}'");
        }
        let of_run = format!("target_service_name = {service} AND {of_run}");
        let roots = format!("SELECT {COLUMNS} FROM sys_invocation WHERE {of_run}");
        let roots = self.query::<Row>(&roots).await?;
        // Most runs do not continue as new.
        let next = format!(
            "SELECT {COLUMNS} FROM sys_invocation WHERE target_service_name = {service} \
             AND target_handler_name = '{}' ORDER BY created_at",
            continuation::HANDLER
        );
        let next = match roots.is_empty() {
            true => return Ok(Vec::new()),
            false => self.query::<Row>(&next).await?,
        };
        let entries = format!(
            "SELECT service_key, key, value_utf8 FROM state WHERE service_name = {object} {of_key}"
        );
        let mut entries = self.query::<StateRow>(&entries).await?.into_iter().fold(
            HashMap::<_, Entry>::new(),
            |mut entries, row| {
                entries.entry(row.service_key).or_default().read(&row.key, &row.value_utf8);
                entries
            },
        );
        let entry = |row: &Row| entries.remove(&row.id).unwrap_or_default();
        let mut runs: Vec<Run> = Run::all(roots, next, entry);
        runs.sort_by_key(Run::created_at);
        Ok(runs)
    }

    /// Returns the outcome of an ended run. `None` if the invocation failed or is not kept any more.
    pub(super) async fn outcome(&self, id: &str) -> Result<Option<RunOutcome>, RunsError> {
        let url = format!("{}/restate/invocation/{id}/output", self.ingress);
        let answer = self.send(Method::GET, &url, None, None).await?;
        match answer.status {
            200 => answer.read().map(Some),
            _ => Ok(None),
        }
    }

    /// Calls a public handler of the service.
    pub(super) async fn call(
        &self,
        handler: &str,
        idempotency_key: Option<&str>,
        body: &impl Serialize,
    ) -> Result<Answer, RunsError> {
        let url = format!("{}/{}/{handler}", self.ingress, self.service);
        let mut json = Vec::new();
        stored_json::write(&mut json, body).map_err(engine)?;
        self.send(Method::POST, &url, idempotency_key, Some(json.into())).await
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<Answer, RunsError> {
        let url = format!("{}/invocations/{id}/cancel", self.admin);
        self.send(Method::PATCH, &url, None, None).await
    }

    async fn query<T: DeserializeOwned>(&self, sql: &str) -> Result<Vec<T>, RunsError> {
        let body = json!({ "query": sql }).to_string();
        let url = format!("{}/query", self.admin);
        let answer = self.send(Method::POST, &url, None, Some(body.into())).await?.success()?;
        answer.read::<Rows<T>>().map(|rows| rows.rows)
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        idempotency_key: Option<&str>,
        body: Option<Bytes>,
    ) -> Result<Answer, RunsError> {
        let mut request =
            Request::builder().method(method).uri(url).header(ACCEPT, "application/json");
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let request = request.body(body.unwrap_or_default()).map_err(engine)?;
        let response = self.client.execute(request).await.map_err(engine)?;
        Ok(Answer { status: response.status().as_u16(), body: response.into_body() })
    }
}

impl<E> fmt::Debug for Server<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("service", &self.service)
            .field("ingress", &self.ingress)
            .field("admin", &self.admin)
            .finish_non_exhaustive()
    }
}

/// The response of a query.
#[derive(Deserialize)]
struct Rows<T> {
    rows: Vec<T>,
}

/// A value in the state of an object.
#[derive(Deserialize)]
struct StateRow {
    service_key: String,
    key: String,
    value_utf8: String,
}

/// A response of the server.
pub(super) struct Answer {
    pub(super) status: u16,
    body: Bytes,
}

impl Answer {
    /// Returns the response if it reports a success.
    pub(super) fn success(self) -> Result<Self, RunsError> {
        match self.status {
            200..=299 => Ok(self),
            status => Err(engine(format!("Restate responded {status}: {}", self.message()))),
        }
    }

    /// The text of an error.
    pub(super) fn message(&self) -> String {
        let body: Option<Value> = serde_json::from_slice(&self.body).ok();
        let message = body.as_ref().and_then(|body| body.get("message")?.as_str());
        message.map_or_else(|| String::from_utf8_lossy(&self.body).into_owned(), str::to_owned)
    }

    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T, RunsError> {
        stored_json::read(&self.body).map_err(engine)
    }

    /// A text in the response.
    pub(super) fn text(&self, field: &str) -> Result<String, RunsError> {
        let body: Value = self.read()?;
        let text = body.get(field).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| engine(format!("the response has no `{field}`")))
    }
}

fn engine(error: impl Into<neuron_types::BoxError>) -> RunsError {
    RunsError::Engine(error.into())
}

/// A text in SQL.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
