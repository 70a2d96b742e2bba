"""Small networks that the tests build. Read as text too: a package carries its source."""

import torch
from torch import nn
from torch.nn import functional


def conv(inputs, outputs, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, 1, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU6(inplace=True),
    )


class Tiny(nn.Module):
    """ReLU6 in every form: as a module after Conv+BN, as a function, as Hardtanh, as clamp, after an addition."""

    def __init__(self, classes=5):
        super().__init__()
        self.stem = conv(3, 16, 2)
        self.depthwise = conv(16, 16, groups=16)
        self.point = nn.Conv2d(16, 16, 1)
        self.norm = nn.BatchNorm2d(16)
        self.side = nn.Conv2d(16, 16, 1)
        self.hardtanh = nn.Hardtanh(0.0, 6.0)
        self.last = nn.Conv2d(16, 24, 1)
        self.hidden = nn.Linear(24, 16)
        self.relu = nn.ReLU()
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        x = self.depthwise(self.stem(x * 2.0))
        x = functional.relu6(self.norm(self.point(x)) + x)
        x = self.hardtanh(self.side(x))
        x = torch.clamp(self.last(x), 0.0, 6.0)
        x = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(self.relu(self.hidden(x)))


class Mixed(nn.Module):
    """A ReLU6 whose scale is shared with values beyond 6, by a concatenation: its bound cannot be its scale."""

    def __init__(self):
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(3, 8, 3, padding=1)
        self.relu6 = nn.ReLU6()
        self.a.weight.data.mul_(8.0)
        self.b.weight.data.mul_(12.0)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.cat([self.relu6(self.a(x)), self.b(x)], 1)
        return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x):
        y = self.head(x.flatten(1))
        if bool(x.mean() > 0):
            return y
        return y * 3 + 1


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x):
        y = self.head(x.flatten(1))
        return y, y


class Infinite(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x):
        return self.head(x.flatten(1)) / torch.zeros(1)


class Python(nn.Module):
    """A network that neither script nor trace can take."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x):
        if float(x.detach().numpy().max()) > 1e9:
            raise ValueError("too bright")
        return self.head(x.flatten(1)) * len({type(self): 1})


class Annotated(nn.Module):
    """Answers otherwise in training than in eval mode, as GoogLeNet does, and says only the former."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.norm = nn.BatchNorm2d(4)

    def forward(self, x) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(self.conv(x)).mean((2, 3))
        if self.training:
            return y, y
        return y


class Crash(nn.Module):
    """TorchScript divides whole numbers without looking at the divisor: the process dies of SIGFPE."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x):
        return self.head(x.flatten(1)) * float(5 % (x.size(0) - 1))


class Talker(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x):
        print("hello from the model")  # noqa: T201  # what the runner has to survive
        return self.head(x.flatten(1))


def transformer():
    """A small ViT, with a head that does not start at zero."""
    from torchvision.models import VisionTransformer

    model = VisionTransformer(32, 16, 2, 2, 16, 32, num_classes=4)
    nn.init.normal_(model.heads[0].weight)
    return model


class Gate(nn.Module):
    """Decides by what it is given: only a script keeps both ways."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        y = self.head(x.flatten(1))
        if bool(x.mean() > 0.5):
            return y
        return y * 3 + 1


class Gated(nn.Module):
    """Parts that can be traced around one that cannot, in a list, in a sequence, in place, and called by name."""

    def __init__(self):
        super().__init__()
        self.stem = conv(3, 8, 2)
        self.blocks = nn.ModuleList(conv(8, 8) for _ in range(2))
        self.named = nn.Conv2d(8, 8, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.gate = Gate()

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        x = self.named(input=x) * self.named.weight.mean()
        return self.gate(self.pool(x))


class Rare(nn.Module):
    """A branch that no ordinary image takes."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x):
        y = self.head(x.flatten(1))
        if bool(x.max() > 1e6):
            return y * 0
        return y


class Moody(nn.Module):
    """Decides by its data, in words that only Python has: no trace, no script."""

    def forward(self, x):
        return x * len({type(self): 1}) if bool(x.mean() > 0) else -x


class Hidden(nn.Module):
    """`Moody` deep inside."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 4), Moody())

    def forward(self, x):
        return self.body(x)


class Named(nn.Module):
    """Answers a dict, as detection models do."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3 * 32 * 32, 4)

    def forward(self, x) -> dict[str, torch.Tensor]:
        return {"logits": self.head(x.flatten(1))}


class Keeps(nn.Module):
    """Holds the last input, and notices when the next one lies in the same memory, or holds what it wrote there."""

    def __init__(self) -> None:
        super().__init__()
        self.last = torch.zeros(0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool((x > 1.0).any()):
            raise RuntimeError("the input holds what the model wrote")
        if self.last.numel() > 0:
            self.last.fill_(7.0)
            if bool((x == 7.0).any()):
                raise RuntimeError("an input was given twice")
        self.last = x
        return x.add_(5.0).flatten(1)


class Bessel(nn.Module):
    """ONNX has no operator for what it does."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        return self.head(torch.special.bessel_j0(x).mean((2, 3)))


class Double(nn.Module):
    """ONNX has its convolution of float64, and ONNX Runtime's CPU no kernel for it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return functional.conv2d(x.double(), self.conv.weight.double()).float().mean((2, 3))


class ValueDependent(nn.Module):
    """A network whose way depends on the image."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        means = x.mean((2, 3))
        return self.head(means) if means.sum() > 0 else self.head(-means)


class TwoAnswers(nn.Module):
    """A network whose answers are in a tuple."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        means = x.mean((2, 3))
        return self.head(means), means


class TwoNamed(TwoAnswers):
    """A network whose answers are in a dict."""

    def forward(self, x):
        answer, means = super().forward(x)
        return {"answer": answer, "means": means}


class BrightPixels(nn.Module):
    """A network whose number of answers depends on the image."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 4)

    def forward(self, x):
        pixels = x.permute(0, 2, 3, 1).flatten(0, 2)
        return self.head(pixels[x.mean(1).flatten() > 0.5][:1])


class Blurred(nn.Module):
    """A network whose first convolution has constants for weights: a buffer that is not saved, and a plain tensor."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kernel", torch.full((3, 1, 3, 3), 1 / 9), persistent=False)
        self.edge = torch.full((3,), 0.1)
        self.conv = conv(3, 8, stride=2)
        self.classifier = nn.Linear(8, 10)

    def forward(self, x):
        x = functional.conv2d(x, self.kernel, self.edge, padding=1, groups=3)
        return self.classifier(self.conv(x).mean((2, 3)))


class ContiguousBeforeView(nn.Module):
    """In NCHW it needs no `contiguous`, and `torch.export` leaves it out."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=4)
        self.classifier = nn.Linear(8 * 8 * 8, 10)

    def forward(self, x):
        return self.classifier(self.conv(x).relu().contiguous().view(x.shape[0], -1))


class NoLinear(nn.Module):
    """A convolution answers."""

    def __init__(self):
        super().__init__()
        self.last = nn.Conv2d(3, 4, 1)

    def forward(self, x):
        return self.last(x).mean((2, 3))


class Sized(nn.Module):
    """Computes with sizes as people do: a head behind `view`, a scale of the number of channels, a branch."""

    def __init__(self):
        super().__init__()
        self.stem, self.pool = conv(3, 8), nn.MaxPool2d(16)
        self.head = nn.Linear(8 * 4, 5)

    def forward(self, x):
        x = self.stem(x)
        x = x * x.shape[1] ** -0.5
        if x.size(-1) > 16:
            x = self.pool(x)
        return self.head(x.view(x.size(0), -1))


class Overwrites(nn.Module):
    """Normalises its input in place."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = conv(3, 8), nn.Linear(8, 5)

    def forward(self, x):
        x.sub_(0.1).div_(0.5)
        return self.head(self.stem(x).mean((2, 3)))


class Pooled(nn.Module):
    """Pools without a stride, behind a convolution whose ends get different padding."""

    def __init__(self):
        super().__init__()
        self.stem, self.wide, self.head = conv(3, 8), nn.Conv2d(8, 8, 4, padding="same"), nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.max_pool2d(self.wide(self.stem(x)), 2)
        return self.head(nn.functional.avg_pool2d(x, 16).flatten(1))


class CutOff(nn.Module):
    """Pads by less than nothing, which ExecuTorch exports and refuses to run."""

    def __init__(self):
        super().__init__()
        self.stem, self.head = conv(3, 8), nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.pad(x, (-1, 1, -1, 1))
        return self.head(self.stem(x).mean((2, 3)))
