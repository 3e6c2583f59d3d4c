"""Reasons for the end of a reply, in the spellings of the servers' references."""

import pytest

from rumi.models.dialects.endings import Ending, ending_of

REASONS: dict[Ending, str] = {
    "stop": "stop STOP end_turn stop_sequence eos eos_token endoftext complete COMPLETE completed finished "
    "done success normal FINISH_REASON_UNSPECIFIED stop_str endTurn",
    "tool_calls": "tool_calls tool_use tool_call function_call TOOL_CALL toolUse tools",
    "length": "length max_tokens MAX_TOKENS model_length max_output_tokens token_limit pause_turn limit "
    "truncated model_context_window_exceeded max_new_tokens maxTokens max-tokens",
    "filtered": "content_filter content_filtered SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII "
    "IMAGE_SAFETY LANGUAGE refusal sensitive guardrail_intervened ERROR_TOXIC content-filter "
    "contentFilter moderation",
    "malformed": "MALFORMED_FUNCTION_CALL UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS malformed_tool_use "
    "malformed_model_output MISSING_THOUGHT_SIGNATURE",
    "failed": "error ERROR abort aborted cancelled network_error insufficient_system_resource OTHER timeout "
    "USER_CANCEL failed incomplete load unload engine_overloaded ERROR_LIMIT repetition_truncation",
    "unknown": "moon_phase 7 x",
}


@pytest.mark.parametrize("ending", REASONS)
def test_each_servers_reasons_have_their_meaning(ending: Ending) -> None:
    assert {reason: ending_of(reason) for reason in REASONS[ending].split()} == dict.fromkeys(
        REASONS[ending].split(), ending
    )
