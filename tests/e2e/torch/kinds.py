# SPDX-License-Identifier: BSD-3-Clause
"""Asks the question of TAGC_LAYERMAP=torch about modules whose classes tell the kinds of parameters. Prints TAP.

    kinds.py MODULES.PY

A line of MODELS is a parameter: class of the model, path with the class of each module, shape, and the kinds that the answer
states. Classes and paths are those of transformers.
"""
import math
import sys
import types

from module_base import Module

MODELS = {
    "BERT, whose output is no head in a block": """
        BertForMaskedLM bert=BertModel.embeddings=BertEmbeddings.word_embeddings=Embedding.weight 640x64 embed
        BertForMaskedLM bert=BertModel.embeddings=BertEmbeddings.LayerNorm=LayerNorm.bias 64 norm,bias
        BertForMaskedLM list=ModuleList.0=BertLayer.attention=BertAttention.self=BertSelfAttention.query=Linear.bias 64 attn,bias
        BertForMaskedLM list=ModuleList.0=BertLayer.attention=BertAttention.output=BertSelfOutput.dense=Linear.weight 64x64 attn
        BertForMaskedLM list=ModuleList.0=BertLayer.attention=BertAttention.output=BertSelfOutput.LayerNorm=LayerNorm.weight 64 norm
        BertForMaskedLM list=ModuleList.0=BertLayer.intermediate=BertIntermediate.dense=Linear.weight 256x64 mlp
        BertForMaskedLM list=ModuleList.0=BertLayer.output=BertOutput.dense=Linear.bias 64 mlp,bias
        BertForMaskedLM cls=BertOnlyMLMHead.predictions=BertLMPredictionHead.transform=BertPredictionHeadTransform.dense=Linear.weight 64x64 head
        BertForMaskedLM pooler=BertPooler.dense=Linear.weight 64x64 head""",
    "a family with Moe in its name, whose first MLPs are no experts": """
        Qwen3MoeForCausalLM list=ModuleList.0=Qwen3MoeDecoderLayer.self_attn=Qwen3MoeAttention.q_norm=Qwen3MoeRMSNorm.weight 16 attn,norm
        Qwen3MoeForCausalLM list=ModuleList.0=Qwen3MoeDecoderLayer.mlp=Qwen3MoeMLP.up_proj=Linear.weight 256x64 mlp
        Qwen3MoeForCausalLM list=ModuleList.1=Qwen3MoeDecoderLayer.self_attn=Qwen3MoeAttention.q_proj=Linear.weight 64x64 attn
        Qwen3MoeForCausalLM list=ModuleList.1=Qwen3MoeDecoderLayer.mlp=Qwen3MoeSparseMoeBlock.gate=Linear.weight 8x64 expert
        Qwen3MoeForCausalLM list=ModuleList.1=Qwen3MoeDecoderLayer.mlp=Qwen3MoeSparseMoeBlock.experts=Qwen3MoeExperts.down_proj 8x64x64 mlp,expert
        Qwen3MoeForCausalLM lm_head=Linear.weight 640x64 attn?,mlp?,expert?,embed?,head?""",
    "experts inside an FFN, and a module for norms and attention": """
        DbrxForCausalLM list=ModuleList.0=DbrxBlock.norm_attn_norm=DbrxNormAttentionNorm.norm_1=LayerNorm.weight 64 norm
        DbrxForCausalLM list=ModuleList.0=DbrxBlock.norm_attn_norm=DbrxNormAttentionNorm.attn=DbrxAttention.Wqkv=Linear.weight 192x64 attn
        DbrxForCausalLM list=ModuleList.0=DbrxBlock.ffn=DbrxFFN.router=DbrxRouter.layer=Linear.weight 8x64 expert
        DbrxForCausalLM list=ModuleList.0=DbrxBlock.ffn=DbrxFFN.experts=DbrxExperts.mlp=DbrxExpertGLU.w1 1024x64 mlp,expert""",
    "PyTorch's own layers": """
        Model layers=TransformerEncoder.list=ModuleList.0=TransformerEncoderLayer.self_attn=MultiheadAttention.in_proj_bias 192 attn,bias
        Model layers=TransformerEncoder.list=ModuleList.0=TransformerEncoderLayer.linear1=Linear.weight 256x64 mlp
        Model layers=TransformerEncoder.list=ModuleList.0=TransformerEncoderLayer.linear2=Linear.bias 64 mlp,bias
        Model layers=TransformerEncoder.list=ModuleList.0=TransformerEncoderLayer.norm2=LayerNorm.bias 64 norm,bias""",
    "a mixer without attention": """
        Mamba2ForCausalLM list=ModuleList.0=Mamba2Block.norm=Mamba2RMSNorm.weight 64 norm
        Mamba2ForCausalLM list=ModuleList.0=Mamba2Block.mixer=Mamba2Mixer.A_log 8 attn
        Mamba2ForCausalLM list=ModuleList.0=Mamba2Block.mixer=Mamba2Mixer.in_proj=Linear.weight 256x64 attn
        Mamba2ForCausalLM list=ModuleList.0=Mamba2Block.mixer=Mamba2Mixer.norm=MambaRMSNormGated.weight 64 attn,norm""",
    "attention in the name of a block, embeddings in that of a model": """
        JinaEmbeddingsModel embed=NormedEmbedding.weight 640x64 embed
        JinaEmbeddingsModel list=ModuleList.0=JinaEmbeddingsAttentionLayer.feed=JinaEmbeddingsMLP.up=FSDPLinear.weight 256x64 mlp
        JinaEmbeddingsModel list=ModuleList.0=JinaEmbeddingsAttentionLayer.scale 64 unknown
        JinaEmbeddingsModel list=ModuleList.0=FSDPJinaEmbeddingsAttentionLayer.feed=FSDPJinaEmbeddingsMLP.down=Linear.weight 64x256 mlp
        JinaEmbeddingsModel lm_head=JinaEmbeddingsLMHead.bias 640 head,bias
        JinaEmbeddingsModel back=Linear.weight 640x64 head""",
    "two linear layers beside attention, by themselves or in a sequence": """
        Model list=ModuleList.0=Block.mix=Attention.qkv=Linear.weight 192x64 attn
        Model list=ModuleList.0=Block.a=Linear.weight 256x64 mlp
        Model list=ModuleList.0=Block.a=Linear.bias 256 mlp,bias
        Model list=ModuleList.0=Block.b=Linear.weight 64x256 mlp
        Model other=ModuleList.0=Layer.mix=Attention.qkv=Linear.weight 192x64 attn
        Model other=ModuleList.0=Layer.more=Sequential.one=Linear.weight 256x64 mlp
        Model other=ModuleList.0=Layer.more=Sequential.two=Linear.weight 64x256 mlp""",
    "names alone": """
        Model list=ModuleList.0=Block.attention=Inner.q_proj=Linear.weight 64x64 attn?,mlp?,expert?
        Model list=ModuleList.0=Block.mlp=Inner.up_proj=Linear.bias 64 attn?,mlp?,expert?,bias
        Model list=ModuleList.0=Block.mlp=Inner.norm_weight 64 unknown
        Model list=ModuleList.0=Block.norm=Scale.weight 64 unknown
        Model list=ModuleList.0=Block.three=Three.a=Linear.weight 256x64 attn?,mlp?,expert?
        Model list=ModuleList.0=Block.three=Three.b=Linear.weight 64x256 attn?,mlp?,expert?
        Model classifier=Linear.weight 10x64 attn?,mlp?,expert?,embed?,head?
        Model wte=Table.weight 640x64 unknown""",
    "a model with a configuration": """
        ViTModel list=ModuleList.0=ViTLayer.mlp=ViTMLP.up=Linear.weight 64x64 mlp
        ViTModel classifier=Linear.weight 10x64 head
        ViTModel classifier=Linear.bias 10 head,bias
        ViTModel project=Linear.weight 12x64 attn?,mlp?,expert?,embed?,head?
        ViTModel back=Linear.weight 77x64 head
        ViTModel text=Linear.weight 78x64 head""",
    "classes against names": """
        Model list=ModuleList.0=Block.attention=Inner.mix=MLP.up=Linear.weight 64x64 attn?,mlp?,expert?
        Model list=ModuleList.0=Block.mlp=Attention.up=Linear.weight 64x64 attn?,mlp?,expert?
        Model list=ModuleList.0=Block.one=MLP.router=Linear.weight 64x64 attn?,mlp?,expert?
        Model list=ModuleList.0=Block.two=Attention.ln_x 64 unknown
        Model list=ModuleList.0=Block.two=Attention.q_norm=Scale.weight 64 unknown
        Model list=ModuleList.0=Block.three=Inner.a=Linear.weight 64x64 attn?,mlp?,expert?
        Model list=ModuleList.0=Block.three=Inner.b=Linear.weight 64x64 attn?,mlp?,expert?
        Model list=ModuleList.0=Block.three=Inner.c=RMSNorm.weight 64 attn?,norm""",
    "parts that are neither": """
        ViTModel list=ModuleList.0=ViTLayer.attention=ViTAttention.indexer=ViTIndexer.norm=LayerNorm.weight 16 attn?,norm
        ViTModel list=ModuleList.0=ViTLayer.scale=ViTLayerScale.lambda1 64 none
        ViTModel list=ModuleList.0=ViTLayer.mlp=ViTMLP.dt_bias 64 mlp,bias
        ViTModel list=ModuleList.0=ViTLayer.mlp=ViTMLP.up_bias 8x64 mlp,bias?
        ViTModel list=ModuleList.0=ViTLayer.mixed=ViTMLP.attention=ViTAttention.q=Linear.weight 64x64 attn?,mlp?,expert?
        ViTModel list=ModuleList.0=ViTLayer.moe=ViTMoE.gate=Linear.weight 9x64 mlp?,expert?
        ViTModel list=ModuleList.0=ViTLayer.moe=ViTMoE.one=Linear.weight 1x64 expert
        ViTModel list=ModuleList.0=ViTLayer.moe=ViTMoE.experts=ViTExperts.up 8x64x64 mlp,expert""",
}


class State:
    _is_root, _state_ctx = True, None


def fill(root, path, shape):
    *modules, name = path.split(".")
    for part in modules:
        own, _, class_name = part.partition("=")
        root = root._modules.setdefault(own, type(class_name, (Module,), {})())
    root._parameters[name] = types.SimpleNamespace(requires_grad=True, shape=shape)


def make(lines):
    root = type(lines[0].split()[0], (Module,), {})()
    if root.__class__.__name__ == "ViTModel":
        text = types.SimpleNamespace(vocab_size=78)
        root.__dict__["config"] = types.SimpleNamespace(id2label=range(10), vocab_size=77, text_config=text)
    for _, path, shape, _ in map(str.split, lines):
        fill(root, path, tuple(int(n) for n in shape.split("x")))
        if not any(".1=" in line for line in lines):     # one block is no list
            fill(root, path.replace(".0=", ".1="), tuple(int(n) for n in shape.split("x")))
    return root


def answer_of(question, root):
    state = State()
    state._fsdp_param_group = types.SimpleNamespace(
        mesh_info=types.SimpleNamespace(shard_mesh_size=2), fsdp_params=[types.SimpleNamespace(
            sharded_param=p, _orig_size=p.shape, _module_info=types.SimpleNamespace(module=m, param_name=n))
            for _, m in root.named_modules() for n, p in m._parameters.items()])
    sys.modules["torch"] = types.ModuleType("torch")
    sys.modules["torch.distributed._composable_state"] = types.SimpleNamespace(_module_state_mapping={root: state})
    names = {"ranks": 2, "looks_everywhere": False, "may_wait": False}
    exec(question, names)
    return names["answer"]


def name_of(path):
    parts = [part.partition("=")[0] for part in path.split(".")]
    block = next((i + 2 for i, part in enumerate(parts) if part in ("list", "other")), 0)
    return ".".join(parts[block:])


def main(path):
    with open(path, encoding="utf-8") as file:
        question = file.read()
    number = 0
    for what, text in MODELS.items():
        lines = [line.strip() for line in text.strip().split("\n")]
        answer = answer_of(question, make(lines))
        for _, path, shape, kinds in map(str.split, lines):
            number += 1
            rows, *columns = [int(n) for n in shape.split("x")]
            size = f"{rows}x{math.prod(columns)}" if columns else f"{rows}"
            wanted = f"  parameter {name_of(path)} {size}" + f" {kinds}"
            good = wanted in answer.split("\n")
            print(f"{'' if good else 'not '}ok {number} - {what}: {name_of(path)} is {kinds}")
            if not good:
                print("\n".join("# " + line for line in answer.split("\n") if f" {name_of(path)} " in line or answer[0] == "!"))
    answer = answer_of(question, make([
        f"T5ForConditionalGeneration {stack}=T5Stack.block=ModuleList.{i}=T5Block.ff=T5LayerFF.weight {rows}x64 mlp"
        for stack, rows in (("encoder", 64), ("decoder", 128)) for i in range(2)]))
    units = [line for line in answer.split("\n") if line.startswith("unit")]
    good = units == ["unit encoder 0-1", "unit block 0-1"]
    print(f"{'' if good else 'not '}ok {number + 1} - lists of blocks have the names by which they differ: {units}")
    print(f"1..{number + 1}")


main(sys.argv[1])
