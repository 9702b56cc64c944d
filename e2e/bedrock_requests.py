"""The bodies of requests to Amazon Bedrock, in the shapes of botocore's service model.

botocore must also accept each request as its own. It validates the parameters of a request, and its
serialiser must write the same path and the same JSON as our provider.
"""

import base64
import json
from urllib.parse import unquote

from botocore.serialize import create_serializer
from botocore.validate import ParamValidator
from report import equal
from service_model import SERVICE, body_members

CONVERSE = SERVICE.operation_model("Converse")
CONVERSE_STREAM = SERVICE.operation_model("ConverseStream")
ConverseRequest = CONVERSE.input_shape
ConverseStreamRequest = CONVERSE_STREAM.input_shape


def check_as_parameters(request):
    """Fails unless botocore accepts the request as parameters and writes it as our provider."""
    is_stream = request["path"].endswith("/converse-stream")
    operation = CONVERSE_STREAM if is_stream else CONVERSE
    parameters = parameters_of(request["body"], operation.input_shape)
    parameters["modelId"] = unquote(request["path"].split("/")[2])
    report = ParamValidator().validate(parameters, operation.input_shape)
    assert not report.has_errors(), report.generate_report()
    serializer = create_serializer(SERVICE.metadata["protocol"], include_validation=False)
    written = serializer.serialize_to_request(parameters, operation)
    equal(written["url_path"], request["path"], "the path")
    equal(json.loads(written["body"]), request["body"], "the body of botocore")


def parameters_of(value, shape):
    """Returns JSON as the parameters of botocore, which have bytes in place of base64."""
    if shape.type_name == "structure" and not shape.is_document_type:
        members = body_members(shape)
        return {key: parameters_of(item, members[key]) for key, item in value.items()}
    if shape.type_name == "list":
        return [parameters_of(item, shape.member) for item in value]
    if shape.type_name == "blob":
        return base64.b64decode(value)
    return value
