//! The [`McpResources`] trait and [`McpResourceSet`].

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

/// The resources of a server. [`McpResourceSet`] is a ready-made implementation.
///
/// Only [`read`](Self::read) can send requests to the client (see [`McpPeer::ask`]).
///
/// All errors are sent to the client:
///
/// - Return [`ToolError::InvalidInput`] for an invalid request, for example an invalid cursor.
/// - Return [`ToolError::NotFound`] for an unknown resource.
/// - All other errors are reported as internal errors of the server.
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
    /// Returns one page of the resources. `cursor` is the `next_cursor` of the previous page, and `None` for the first
    /// page.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::InvalidInput`] if the cursor is invalid.
    fn list(
        &self,
        cursor: Option<&str>,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<PaginatedList<McpResource>, ToolError>> + Send;

    /// Returns one page of the resource templates. `cursor` is the `next_cursor` of the previous page, and `None` for
    /// the first page. The default implementation returns no templates.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::InvalidInput`] if the cursor is invalid.
    fn templates(
        &self,
        _cursor: Option<&str>,
        _peer: &McpPeer,
    ) -> impl Future<Output = Result<PaginatedList<McpResourceTemplate>, ToolError>> + Send {
        async { Ok(PaginatedList::default()) }
    }

    /// Returns the contents of a resource. A resource may have several contents, such as the files of a folder.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::NotFound`] if the resource is unknown.
    fn read(
        &self,
        uri: &str,
        peer: &McpPeer,
    ) -> impl Future<Output = Result<Vec<McpResourceContents>, ToolError>> + Send;

    /// Returns completions for a variable of a resource template. The default implementation returns no completions.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::InvalidInput`] if the template is unknown.
    fn complete(
        &self,
        _query: &CompletionQuery,
        _peer: &McpPeer,
    ) -> impl Future<Output = Result<McpCompletion, ToolError>> + Send {
        async { Ok(McpCompletion::default()) }
    }
}

erased! {
    /// Object-safe form of [`McpResources`], whose methods return boxed futures.
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

/// A client's request to read a resource, as passed to the functions of a [`McpResourceSet`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ResourceRequest {
    /// URI of the requested resource.
    pub uri: String,
    /// Values of the template's variables by name. Empty if the resource was added without a template.
    pub variables: HashMap<String, String>,
    /// The calling client.
    pub peer: McpPeer,
}

/// A user's function that returns the contents of a resource.
type Read = Arc<
    dyn Fn(ResourceRequest) -> BoxFuture<'static, Result<Vec<McpResourceContents>, ToolError>>
        + Send
        + Sync,
>;

/// A user's function that returns completions.
type Complete = Arc<dyn Fn(&CompletionQuery) -> Vec<String> + Send + Sync>;

/// A set of resources built from texts, base64 data and functions.
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
    /// Definitions of the resources, in the order in which they were added.
    resources: Vec<McpResource>,
    /// Functions that return the contents, by resource URI.
    reads: HashMap<String, Read>,
    /// Definitions of the templates, in the order in which they were added.
    templates: Vec<McpResourceTemplate>,
    /// Parsed templates with the functions that return the contents, in the order of `templates`.
    patterns: Vec<(UriTemplate, Read)>,
    /// Functions that return completions, by template and variable name.
    completions: HashMap<(String, String), Complete>,
    /// Maximum number of items on one page of a list.
    page_size: usize,
}

impl Default for McpResourceSet {
    fn default() -> Self {
        Self::new()
    }
}

impl McpResourceSet {
    /// Creates an empty set.
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

    /// Adds a resource with a fixed text. Replaces a resource with the same URI.
    #[must_use]
    pub fn with_text(self, resource: McpResource, text: impl Into<String>) -> Self {
        let content = McpResourceContents {
            mime_type: resource.mime_type.clone(),
            ..McpResourceContents::text(&resource.uri, text)
        };
        self.with_content(resource, content)
    }

    /// Adds a resource with fixed binary data, encoded as standard base64. Replaces a resource with the same URI.
    #[must_use]
    pub fn with_blob(self, resource: McpResource, base64: impl Into<String>) -> Self {
        let content = McpResourceContents {
            mime_type: resource.mime_type.clone(),
            ..McpResourceContents::blob(&resource.uri, base64)
        };
        self.with_content(resource, content)
    }

    /// Adds a resource with fixed content.
    fn with_content(self, resource: McpResource, content: McpResourceContents) -> Self {
        self.with_resource(resource, move |_| {
            let content = content.clone();
            async move { Ok(vec![content]) }
        })
    }

    /// Adds a resource whose contents are returned by a function. Replaces a resource with the same URI.
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

    /// Adds a URI template. Its function returns the contents of every resource whose URI matches the template.
    ///
    /// If a resource was added with exactly the requested URI, it is used instead. Otherwise the first matching
    /// template is used.
    ///
    /// Supports these expressions of RFC 6570:
    ///
    /// - `{variable}`, a value without `/`, `?` and `#`.
    /// - `{+variable}`, a value with any characters.
    /// - `{/variable}`, a `/` and a value without `/`, `?` and `#`.
    /// - `{?variable,…}`, optional query parameters at the end of the URI.
    ///
    /// The values are percent-decoded. Validate a value before you use it as a path.
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

    /// Sets the function that completes a variable of a template. The function receives the text that the user has
    /// typed so far. It returns matching values, with the best match first.
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

    /// Sets the maximum number of items on one page of the resource list and of the template list, at least 1. Defaults
    /// to 1000.
    #[must_use]
    pub fn with_page_size(mut self, items: usize) -> Self {
        self.page_size = items.max(1);
        self
    }
}

/// Converts a user's function into a [`Read`] with a boxed future.
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
        // A resource with exactly this URI takes precedence over all templates.
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
        // A variable without a completion function has no completions. This is not an error.
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
