"""RocketMQ's enums in bodies, as texts. Names stand in the order of their numbers, which C++ clients write instead."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from framework.wire.codes import Language

ConsumeType: TypeAlias = Annotated[str, ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY", "CONSUME_POP")]
MessageModel: TypeAlias = Annotated[str, ("BROADCASTING", "CLUSTERING", "LITE_SELECTIVE")]
ConsumeFrom: TypeAlias = Annotated[
    str,
    (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
]
LanguageName: TypeAlias = Annotated[str, tuple(language.name for language in Language)]
TopicFilterType: TypeAlias = Annotated[str, ("SINGLE_TAG", "MULTI_TAG")]
RetryPolicyType: TypeAlias = Annotated[str, ("EXPONENTIAL", "CUSTOMIZED")]
RequestModeName: TypeAlias = Annotated[str, ("PULL", "POP")]
ConsumeResult: TypeAlias = Annotated[
    str, ("CR_SUCCESS", "CR_LATER", "CR_ROLLBACK", "CR_COMMIT", "CR_THROW_EXCEPTION", "CR_RETURN_NULL")
]
