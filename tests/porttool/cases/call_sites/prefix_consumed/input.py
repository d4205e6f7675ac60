from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present as consume


def load(model, state):
    consume(state, prefix="_orig_mod.")
    model.load_state_dict(state)
