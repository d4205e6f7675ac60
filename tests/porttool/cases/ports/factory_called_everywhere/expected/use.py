from nets import _clean, make as mk, make2


class Sub:
    net = mk(1)
    net2 = make2(1)

    def f(self):
        _clean(self.net)
        self.net2.state_dict()
        _clean([mk(i) for i in range(3)][0])
