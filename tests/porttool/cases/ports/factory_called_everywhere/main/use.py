from nets import make as mk, make2


class Sub:
    net = mk(1)
    net2 = make2(1)

    def f(self):
        self.net.state_dict()
        self.net2.state_dict()
        [mk(i) for i in range(3)][0].state_dict()
