"""The bodies of requests to the Gemini API, in the types of Google's client.

The client has types for the parts of a body, but none for a whole body.
"""

from google.genai.types import (
    Content,
    GenerationConfig,
    SafetySetting,
    ServiceTier,
    Tool,
    ToolConfig,
)
from typing_extensions import NotRequired, TypedDict


class GenerateContentRequest(TypedDict):
    contents: list[Content]
    systemInstruction: NotRequired[Content]
    tools: NotRequired[list[Tool]]
    toolConfig: NotRequired[ToolConfig]
    safetySettings: NotRequired[list[SafetySetting]]
    generationConfig: NotRequired[GenerationConfig]
    cachedContent: NotRequired[str]
    labels: NotRequired[dict[str, str]]
    serviceTier: NotRequired[ServiceTier]
    continuationToken: NotRequired[str]
    store: NotRequired[bool]


class EmbedContentRequest(TypedDict):
    model: str
    content: Content
    taskType: NotRequired[str]
    title: NotRequired[str]
    outputDimensionality: NotRequired[int]


class BatchEmbedContentsRequest(TypedDict):
    requests: list[EmbedContentRequest]
