"""A wrong name in a dict of weights is named."""

from attn.exercises.spec import find
from attn.grading.diagnosis.judge import judge
from solutions.ch09_transformer import map_llama_weights
from tests.grading.diagnosis.own_mistakes import with_mistakes


def with_names(change):
    """Return an answer that gives the right tensors other names."""

    def answer(state, num_heads, num_kv_heads, interleaved=False):
        right = map_llama_weights(state, num_heads, num_kv_heads, interleaved)
        return {change(name): x for name, x in right.items()}

    return answer


def test_wrong_names_of_a_dict_are_named_whatever_they_are():
    answer = with_names(lambda name: "final_norm" if name == "norm" else name)
    verdict = judge(find("tfm-map_llama_weights"), answer)
    assert verdict.mistake == "Names are missing, or others are there"
    message = " ".join(verdict.message.split())
    assert "it lacks norm; it has final_norm, which is superfluous" in message


def test_a_tensor_under_anothers_name_is_named_with_both():
    other = {"up_proj": "down_proj", "down_proj": "up_proj"}
    answer = with_names(
        lambda name: ".".join(other.get(x, x) for x in name.split("."))
    )
    verdict = judge(find("tfm-map_llama_weights"), answer)
    ffn = "blocks.*.feed_forward"
    name = f"{ffn}.up_proj.weight is what {ffn}.down_proj.weight should be"
    assert verdict.mistake == name


def test_a_tensor_of_another_layer_is_not_said_to_have_its_own_name():
    """A name holds for all layers, and has no number of one."""
    other = {"blocks.0": "blocks.1", "blocks.1": "blocks.0"}
    answer = with_names(lambda name: other.get(name[:8], name[:8]) + name[8:])
    exercise = with_mistakes("tfm-map_llama_weights")
    assert "should be" not in (judge(exercise, answer).mistake or "")
