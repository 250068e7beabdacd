# SPDX-License-Identifier: BSD-3-Clause
# Runs in the interpreter of a program that trains with PyTorch (ask.h), for TAGC_LAYERMAP=torch. `ranks` is the size of a
# communicator. `answer` becomes the map (tagc-map(5)) of the model that so many ranks shard or replicate, or "!" and why
# there is none. It reads attributes alone: it loads no module, and leaves all as it was.


def ask(ranks):
    import gc
    import sys

    wrappers = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"}

    def clean(path):
        return ".".join(part for part in path.split(".") if part and part not in wrappers)

    def word(text):
        return "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in text) or "_"

    # ---- what is wrapped: [(root, layout, [(module, name, shape)] of the parameters with gradients)]

    def of_fully_shard():
        mapping = getattr(sys.modules.get("torch.distributed._composable_state"), "_module_state_mapping", None) or {}
        roots, found = [], {}
        for module, state in list(mapping.items()):
            if type(state).__name__ in ("ReferenceType", "weakref"):
                state = state()
            groups = getattr(state, "_fsdp_param_groups", None) or [getattr(state, "_fsdp_param_group", None)]
            if getattr(state, "_is_root", None) and hasattr(state, "_state_ctx"):
                roots.append(module)
            for group in groups:
                mesh = getattr(group, "mesh_info", None)
                if group is None or getattr(mesh, "shard_mesh_size", getattr(mesh, "replicate_mesh_size", 0)) != ranks:
                    continue
                for p in group.fsdp_params:
                    if p.sharded_param.requires_grad and id(p) not in found:
                        if getattr(getattr(p, "fsdp_placement", None), "dim", 0) != 0:
                            raise ValueError("a parameter is sharded along another dimension than its first")
                        found[id(p)] = (p._module_info.module, p._module_info.param_name, tuple(p._orig_size))
        return [(root, "fsdp2", list(found.values())) for root in roots] if found else []

    def of_wrappers():
        fsdp = getattr(sys.modules.get("torch.distributed.fsdp.fully_sharded_data_parallel"), "FullyShardedDataParallel", None)
        ddp = getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
        kinds = [k for k in (fsdp, ddp) if k is not None]
        for k in kinds:     # and their subclasses
            kinds.extend(s for s in type.__subclasses__(k) if s not in kinds)
        kinds, roots, found, aligned = frozenset(kinds), [], [], False
        objects = [o for o in gc.get_objects() if type(o) in kinds] if kinds else []
        for o in objects:
            if ddp is not None and issubclass(type(o), ddp):
                if o.process_group.size() == ranks:
                    roots.append((o.module, None, [
                        (m, n, tuple(p.shape)) for path, m in o.module.named_modules() for n, p in m._parameters.items()
                        if p is not None and p.requires_grad and
                        (path + "." * bool(path) + n) not in getattr(o, "parameters_to_ignore", ())]))
                continue
            if o._is_root:
                roots.append((o, "fsdp1", found))
            handles = getattr(o, "_handles", None) or [getattr(o, "_handle", None)]
            for handle in handles:
                if handle is None or handle.world_size != ranks or not handle.flat_param.requires_grad:
                    continue
                flat = handle.flat_param
                aligned = aligned or any(getattr(flat, "_is_padding_mask", None) or ())
                found.extend((i.module, i.param_name, tuple(s)) for i, s in zip(flat._param_infos, flat._shapes))
        return [(root, "fsdp1_aligned" if layout == "fsdp1" and aligned else layout, list_)
                for root, layout, list_ in roots if list_]

    # ---- the parameters of a model, in the order in which modules are registered

    def plain(module):
        name = type(module).__name__
        return name[4:] if name.startswith("FSDP") else name      # as fully_shard calls a class that it wraps

    def parameters_of(root, entries):
        names, place, by_name, words = {}, {}, {}, set()
        for path, module in root.named_modules():
            names.setdefault(id(module), clean(path))
            place.setdefault(id(module), len(place))
            by_name[clean(path)] = module
        own = [e for e in enumerate(entries) if id(e[1][0]) in names]
        own.sort(key=lambda e: (place[id(e[1][0])], e[0]))
        result = []
        for _, (module, name, shape) in own:
            path = names[id(module)]
            parts = path.split(".") if path else []
            around = [plain(by_name.get(".".join(parts[:i]))) for i in range(len(parts) + 1)]
            if "Embedding" in around[-1] and len(shape) > 1:
                words.add(tuple(shape))
            result.append((path, name, shape, around))
        return result, words, by_name

    # ---- kinds, where the classes of modules tell them; else the library asks the names

    def has(text, *words):
        return any(w in text for w in words)

    # "MoeMLP" of "Qwen3MoeMLP" would be an expert: without the name of the family, which it shares with `other`, it is "MLP".
    def own_words(name, other):
        end = 0
        for i in range(1, min(len(name), len(other))):
            if name[:i] == other[:i] and name[i].isupper() and other[i].isupper():
                end = i
        return name[end:]

    # What mixes tokens counts as attention, whatever it is.
    def is_mixer(text):
        return has(text, "Attention", "Attn", "Mixer", "Mamba", "SSM") and not has(text, "MLP", "Mlp")

    # Outer modules come first. The MLP of torch.nn.TransformerEncoderLayer has no module of its own.
    def kinds_in_block(parts, inside):
        kinds = ["mlp"] if len(parts) == 1 and parts[0] in ("linear1", "linear2") else []
        for part, text in zip(parts, inside):
            if has(text, "Expert", "MoE", "Moe"):
                kinds = ["mlp", "expert"]
            if has(part, "router", "expert_gate") or has(text, "Router", "MoEGate") or (kinds[1:] and part in ("gate", "wg")):
                return ["expert"]
            if not kinds and is_mixer(text):
                return ["attn"]
            if not kinds and (has(text, "MLP", "Mlp", "FeedForward", "FFN") or text in ("Intermediate", "Output")):
                kinds = ["mlp"]
        return kinds

    def kinds_outside(shape, inside, words):
        if has(inside[-1], "Embedding"):
            return ["embed"]
        if has(inside[-1], "Linear") and (tuple(shape) in words or (len(shape) == 1 and shape[0] in [w[0] for w in words])):
            return ["head"]
        is_head = any(text.endswith("Head") or has(text, "Classif", "Pooler", "Predict") for text in inside)
        return ["head"] if is_head else None

    # A parameter of the last module of `inside`, whose names are `parts`: of those in a block, or else below the root.
    def kinds_of(name, shape, outer, inside, parts, words):
        bias = ["bias"] if name.endswith("bias") else []
        inside = [own_words(text, outer) for text in inside]
        own, around = ([""] * 2 + inside)[:-3:-1]
        if has((own + name).lower(), "norm") and not has(own, "Embedding"):
            return ["attn"] * (words is None and is_mixer(around) and not has(around, "Norm")) + ["norm"] + bias
        if not inside:
            return None
        kinds = kinds_in_block(parts, inside) if words is None else kinds_outside(shape, inside, words)
        return kinds + bias if kinds else None

    # ---- blocks: members of a list of modules that have modules themselves

    def lists_of(by_name):
        lists = {}
        for path, module in by_name.items():
            parent, _, number = path.rpartition(".")
            if number.isdigit():
                lists.setdefault(parent, []).append(module)
        return {parent for parent, members in lists.items()
                if len(members) > 1 and all(len(m._modules) for m in members if any(True for _ in m.parameters()))}

    # (list, number) of the block around a path, and how many names of the path are the block's.
    def split(path, lists):
        parts = path.split(".")
        for i, part in enumerate(parts):
            if part.isdigit() and ".".join(parts[:i]) in lists:
                return (".".join(parts[:i]), int(part)), i + 1
        return None, 0

    def line(name, shape, kinds):
        columns = 1
        for n in shape[1:]:
            columns *= n
        rows = shape[0] if shape else 1
        size = "%d" % rows if columns == 1 else "%dx%d" % (rows, columns)
        return "" if rows * columns == 0 else "  parameter %s %s%s\n" % (word(name), size, " " + ",".join(kinds) if kinds else "")

    def ranges(numbers):
        out, first = [], 0
        for i, n in enumerate(numbers):
            if i + 1 == len(numbers) or numbers[i + 1] != n + 1:
                out.append("%d" % n if i == first else "%d-%d" % (numbers[first], n))
                first = i + 1
        return ",".join(out)

    def map_of(root, layout, entries):
        parameters, words, by_name = parameters_of(root, entries)
        lists, order, blocks, elements = lists_of(by_name), [], {}, {}
        for path, name, shape, around in parameters:
            where, depth = split(path, lists)
            parts = path.split(".")[depth:] if path else []
            kinds = kinds_of(name, shape, around[depth], around[depth + 1:], parts, None if where else words)
            text = line(".".join(parts + [name]), shape, kinds)
            if where:
                size = 1
                for n in shape:
                    size *= n
                elements[where[0]] = elements.get(where[0], 0) + size
            if not order or order[-1] != where:
                if where is not None and where in blocks:
                    raise ValueError("the parameters of block %s.%d are registered apart" % where)
                order.append(where)
                blocks[where if where is not None else len(order)] = ""
            blocks[where if where is not None else len(order)] += text
        largest = sorted(elements, key=lambda p: -elements[p])
        unit, used = {}, {"block", "embed", "head", "model", "middle"}
        for i, prefix in enumerate(largest):
            own = prefix.split(".")     # "encoder" of "model.encoder.layers", beside "model.decoder.layers"
            name = next((a for a, b in zip(own, largest[0].split(".")) if a != b), own[-1])
            name = "block" if i == 0 else word(name)[-24:]
            while i and name in used:
                name += "_"
            used.add(name)
            unit[prefix] = name
        out = "tagc-map 1\n" + ("layout %s\n" % layout if layout else "")
        outside = [i for i, where in enumerate(order) if where is None]
        i = 0
        while i < len(order):
            if order[i] is None:
                name = "model" if not largest else "embed" if i == 0 else "head" if i + 1 == len(order) else "middle"
                if name == "middle":
                    name += "%d" % outside.index(i)
                out += "unit %s\n%s" % (name, blocks[i + 1])
                i += 1
                continue
            prefix, forms = order[i][0], {}
            while i < len(order) and order[i] is not None and order[i][0] == prefix:
                forms.setdefault(blocks[order[i]], []).append(order[i][1])
                i += 1
            for text, numbers in forms.items():
                out += "unit %s %s\n%s" % (unit[prefix], ranges(numbers), text)
        return out

    # ----

    if "torch" not in sys.modules:
        return "!this process has not loaded PyTorch"
    models = of_fully_shard() or of_wrappers()
    if not models:
        return "!no model is wrapped by FSDP or DDP over %d ranks" % ranks
    if len(models) > 1:
        return "!%d models are wrapped over %d ranks: a map holds one" % (len(models), ranks)
    return map_of(*models[0])


try:
    import gc
    collects = gc.isenabled()
    gc.disable()                # no finalizer of the program runs in this thread, which holds up a call
    try:
        answer = ask(ranks)
    finally:
        if collects:
            gc.enable()
except BaseException as e:      # whatever a version of PyTorch may lack: the program must not see it
    answer = "!%s: %.200s" % (type(e).__name__, e)
