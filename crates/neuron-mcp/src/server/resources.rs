//! Resources of a server: the trait, and a set that is put together.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use neuron_types::ToolError;

use super::cursor;
use super::peer::McpPeer;
use super::uri_template::UriTemplate;
use crate::erased::erased;
use crate::{
    CompletionQuery, McpCompletion, McpResource, McpResourceContents, McpResourceTemplate,
    PaginatedList,
};

/// The resources of a server. [`McpResourceSet`] is a ready-made one.
///
/// Only [`read`](Self::read) can ask the client something: see [`McpPeer::ask`].
///
/// Errors tell the client what is wrong: [`ToolError::InvalidInput`] that the request is, a cursor for one;
/// [`ToolError::NotFound`] that there is no such resource; any other that the server failed.
///
/// # Example
///
/// ```
/// use neuron_mcp::{McpPeer, McpResource, McpResourceContents, McpResources, PaginatedList};
/// use neuron_types::ToolError;
///
/// struct Clock;
///
/// impl McpResources for Clock {
///     async fn list(
///         &self,
///         _cursor: Option<&str>,
///         _peer: &McpPeer,
///     ) -> Result<PaginatedList<McpResource>, ToolError> {
///         Ok(PaginatedList::complete(vec![McpResource::new("clock://now", "now")]))
///     }
///
///     async fn read(&self, uri: &str, _peer: &McpPeer) -> Result<Vec<McpResourceContents>, ToolError> {
///         match uri {
///             "clock://now" => Ok(vec![McpResourceContents::text(uri, "half past four")]),
///             _ => Err(ToolError::NotFound(uri.to_owned())),
///         }
///     }
/// }
/// ```
pub trait McpResources: Send + Sync {
    /// One page of the resources.
    ///
    /// # Errors
    ///
    /// See the trait.
    fn list(
        &self,
        cursor: Option<&str>,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<PaginatedList<McpResource>, ToolError>> + Send;

    /// One page of the templates. Provided: there are none.
    ///
    /// # Errors
    ///
    /// See the trait.
    fn templates(
        &self,
        _cursor: Option<&str>,
        _peer: &McpPeer,
    ) -> impl Future<Output = Result<PaginatedList<McpResourceTemplate>, ToolError>> + Send {
        async { Ok(PaginatedList::default()) }
    }

    /// The content of a resource: usually one, several for a folder.
    ///
    /// # Errors
    ///
    /// See the trait.
    fn read(
        &self,
        uri: &str,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<Vec<McpResourceContents>, ToolError>> + Send;

    /// What could stand in a variable of a template. Provided: nothing.
    ///
    /// # Errors
    ///
    /// See the trait.
    fn complete(
        &self,
        _query: &CompletionQuery,
        _peer: &McpPeer,
    ) -> impl Future<Output = Result<McpCompletion, ToolError>> + Send {
        async { Ok(McpCompletion::default()) }
    }
}

erased! {
    /// [`McpResources`] behind a pointer.
    pub(crate) trait DynResources<'a>: McpResources {
        async fn list(cursor: Option<&'a str>, peer: &'a McpPeer)
            -> Result<PaginatedList<McpResource>, ToolError>;
        async fn templates(cursor: Option<&'a str>, peer: &'a McpPeer)
            -> Result<PaginatedList<McpResourceTemplate>, ToolError>;
        async fn read(uri: &'a str, peer: &'a McpPeer)
            -> Result<Vec<McpResourceContents>, ToolError>;
        async fn complete(query: &'a CompletionQuery, peer: &'a McpPeer)
            -> Result<McpCompletion, ToolError>;
    }
}

/// What a client wants to read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ResourceRequest {
    /// The address.
    pub uri: String,
    /// The variables of the template, if it is one of a template.
    pub variables: HashMap<String, String>,
    /// The client.
    pub peer: McpPeer,
}

type Read = Arc<
    dyn Fn(ResourceRequest) -> BoxFuture<'static, Result<Vec<McpResourceContents>, ToolError>>
        + Send
        + Sync,
>;

type Complete = Arc<dyn Fn(&CompletionQuery) -> Vec<String> + Send + Sync>;

/// Resources that are put together from texts, bytes and functions.
///
/// # Example
///
/// ```
/// use neuron_mcp::{McpResource, McpResourceContents, McpResourceSet, McpResourceTemplate};
///
/// let resources = McpResourceSet::new()
///     .with_text(McpResource::new("docs://licence", "licence"), "MIT")
///     .with_template(McpResourceTemplate::new("users://{id}", "user"), |request| async move {
///         let text = format!("the user {}", request.variables["id"]);
///         Ok(vec![McpResourceContents::text(request.uri, text)])
///     });
/// ```
#[derive(Clone)]
pub struct McpResourceSet {
    resources: Vec<McpResource>,
    reads: HashMap<String, Read>,
    templates: Vec<McpResourceTemplate>,
    /// The templates once more, to match with.
    patterns: Vec<(UriTemplate, Read)>,
    /// By template and variable.
    completions: HashMap<(String, String), Complete>,
    page_size: usize,
}

impl Default for McpResourceSet {
    fn default() -> Self {
        Self::new()
    }
}

impl McpResourceSet {
    /// Without any.
    #[must_use]
    pub fn new() -> Self {
        Self {
            resources: Vec::new(),
            reads: HashMap::new(),
            templates: Vec::new(),
            patterns: Vec::new(),
            completions: HashMap::new(),
            page_size: cursor::PAGE_SIZE,
        }
    }

    /// Adds a text. One with the same address is replaced.
    #[must_use]
    pub fn with_text(self, resource: McpResource, text: impl Into<String>) -> Self {
        let content = McpResourceContents {
            mime_type: resource.mime_type.clone(),
            ..McpResourceContents::text(&resource.uri, text)
        };
        self.with_content(resource, content)
    }

    /// Adds bytes, in standard base64. A resource with the same address is replaced.
    #[must_use]
    pub fn with_blob(self, resource: McpResource, base64: impl Into<String>) -> Self {
        let content = McpResourceContents {
            mime_type: resource.mime_type.clone(),
            ..McpResourceContents::blob(&resource.uri, base64)
        };
        self.with_content(resource, content)
    }

    fn with_content(self, resource: McpResource, content: McpResourceContents) -> Self {
        self.with_resource(resource, move |_| {
            let content = content.clone();
            async move { Ok(vec![content]) }
        })
    }

    /// Adds a resource whose content a function gives. One with the same address is replaced.
    #[must_use]
    pub fn with_resource<F>(
        mut self,
        resource: McpResource,
        read: impl Fn(ResourceRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Vec<McpResourceContents>, ToolError>> + Send + 'static,
    {
        self.resources.retain(|other| other.uri != resource.uri);
        self.reads.insert(resource.uri.clone(), boxed(read));
        self.resources.push(resource);
        self
    }

    /// Adds resources that differ in parts of their address. The first template that fits an address is
    /// asked, after the resources with the very address.
    ///
    /// Of RFC 6570, `{variable}` (no `/` in it), `{+variable}` (anything) and `{/variable}` are understood, and
    /// `{?variable,…}` at the end. Variables are percent-decoded: check them before you use them as a path.
    #[must_use]
    pub fn with_template<F>(
        mut self,
        template: McpResourceTemplate,
        read: impl Fn(ResourceRequest) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Vec<McpResourceContents>, ToolError>> + Send + 'static,
    {
        self.patterns.push((UriTemplate::new(&template.uri_template), boxed(read)));
        self.templates.push(template);
        self
    }

    /// Says what could stand in a variable of a template: the function gets what was typed so far, and
    /// returns what fits it, the best ones first.
    #[must_use]
    pub fn with_completion(
        mut self,
        uri_template: impl Into<String>,
        variable: impl Into<String>,
        complete: impl Fn(&CompletionQuery) -> Vec<String> + Send + Sync + 'static,
    ) -> Self {
        let key = (uri_template.into(), variable.into());
        self.completions.insert(key, Arc::new(complete));
        self
    }

    /// Sets how many items a page of a list has, at least one. Default: 1000.
    #[must_use]
    pub fn with_page_size(mut self, items: usize) -> Self {
        self.page_size = items.max(1);
        self
    }
}

fn boxed<F>(read: impl Fn(ResourceRequest) -> F + Send + Sync + 'static) -> Read
where
    F: Future<Output = Result<Vec<McpResourceContents>, ToolError>> + Send + 'static,
{
    Arc::new(move |request| Box::pin(read(request)))
}

impl McpResources for McpResourceSet {
    async fn list(
        &self,
        cursor: Option<&str>,
        _peer: &McpPeer,
    ) -> Result<PaginatedList<McpResource>, ToolError> {
        cursor::list(&self.resources, |resource| &resource.uri, cursor, self.page_size)
    }

    async fn templates(
        &self,
        cursor: Option<&str>,
        _peer: &McpPeer,
    ) -> Result<PaginatedList<McpResourceTemplate>, ToolError> {
        cursor::list(&self.templates, |template| &template.uri_template, cursor, self.page_size)
    }

    async fn read(&self, uri: &str, peer: &McpPeer) -> Result<Vec<McpResourceContents>, ToolError> {
        let request =
            |variables| ResourceRequest { uri: uri.to_owned(), variables, peer: peer.clone() };
        if let Some(read) = self.reads.get(uri) {
            return read(request(HashMap::new())).await;
        }
        for (pattern, read) in &self.patterns {
            if let Some(variables) = pattern.matches(uri) {
                return read(request(variables)).await;
            }
        }
        Err(ToolError::NotFound(uri.to_owned()))
    }

    async fn complete(
        &self,
        query: &CompletionQuery,
        _peer: &McpPeer,
    ) -> Result<McpCompletion, ToolError> {
        let crate::CompletionTarget::Resource(template) = &query.target else {
            return Ok(McpCompletion::default());
        };
        if !self.templates.iter().any(|known| known.uri_template == *template)
            && !self.reads.contains_key(template)
        {
            return Err(ToolError::InvalidInput(format!("unknown resource template: {template}")));
        }
        let complete = self.completions.get(&(template.clone(), query.argument.clone()));
        let values = complete.map(|complete| complete(query)).unwrap_or_default();
        Ok(McpCompletion { total: u32::try_from(values.len()).ok(), values, has_more: None })
    }
}

impl fmt::Debug for McpResourceSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpResourceSet")
            .field("resources", &self.resources)
            .field("templates", &self.templates)
            .finish_non_exhaustive()
    }
}
