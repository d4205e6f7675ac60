from torch import *

code = compile(source="1 + 1", filename="<s>", mode="eval")
value = eval(code)
