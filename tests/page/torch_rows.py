"""Expressions that PyTorch and its stand-in must compute alike.

Each is evaluated with the names of ``torch_draws.py``: ``x`` and ``u`` are
floats of one shape, and so are ``v`` and ``w``, which are finite; ``y``
broadcasts with them, ``o`` has no axes, ``h`` has another dtype, ``n``
are integers, ``m`` is a mask, ``b`` one that broadcasts, ``i`` indexes along
the last axis, ``a @ c`` fits, ``d`` and ``e`` are axes, ``f`` is a float and
``k`` an integer, ``t`` and ``z`` are tensors without axes.
"""

ROWS = """
# one tensor
torch.exp(x)
x.exp2()
x.expm1()
x.log()
x.log2()
x.log10()
x.log1p()
x.sqrt()
x.rsqrt()
x.reciprocal()
x.sin()
torch.cos(x)
x.tan()
x.asin()
x.acos()
x.atan()
x.sinh()
x.cosh()
torch.tanh(x)
x.erf()
torch.sigmoid(x)
torch.sigmoid(n)
n.sqrt()
n.exp()
m.exp()
x.abs()
n.abs()
x.absolute()
torch.square(x)
n.square()
x.sign()
n.sign()
x.floor()
x.ceil()
x.trunc()
n.floor()
x.round()
(x * 100).round(decimals=1)
torch.relu(x)
n.relu()
x.isnan()
x.isinf()
torch.isfinite(x)
x.isposinf()
x.isneginf()
n.isnan()
x.logical_not()
~m
~n
~x
m.bitwise_not()
n.bitwise_not()
-x
-n
-m
+x
abs(x)
x.neg()
x.negative()
x.nan_to_num()
torch.nan_to_num(x, 0.5, 1.0, -1.0)
n.nan_to_num()
x.detach()
x.cpu()
x.data
# two
x + y
x - y
x * y
x / y
x // y
x % y
x ** y
x + f
f + x
x - k
k - x
x * f
x / k
k / x
f / x
x // f
f // x
x % f
f % x
n // k
n % k
k % n
k // n
n % n
n // n
x ** 2
x ** 0.5
x ** -1
n ** 2
n ** k
n ** -1
2 ** x
2 ** n
2.0 ** n
f ** n
n + f
n * f
n / n
n / k
n + k
m + m
m * m
m - m
x - m
1 - m
m + k
m * f
x + h
x * h
n + x
n + t
z + x
t + x
z + n
t + z
t * 2
t + h
m & b
m | b
m ^ b
n & k
n | n
n ^ k
x & m
m & k
m & True
x == y
x != y
x < y
x <= y
x > y
x >= y
x == f
n == k
n < f
k < n
x == h
x == None
x != 'a'
n == z
torch.eq(x, y)
x.ne(y)
x.lt(y)
x.le(y)
x.gt(y)
x.ge(y)
x.not_equal(y)
x.less(y)
x.greater(y)
x.less_equal(y)
torch.greater_equal(x, y)
torch.add(x, y)
torch.add(x, y, alpha=2)
x.add(k)
torch.sub(x, y, alpha=f)
x.subtract(y)
torch.mul(x, y)
x.multiply(y)
torch.div(x, y)
x.divide(y)
torch.true_divide(x, y)
n.true_divide(k)
torch.div(x, y, rounding_mode='floor')
torch.div(n, k, rounding_mode='trunc')
torch.div(x, y, rounding_mode='trunc')
torch.floor_divide(n, k)
torch.remainder(x, f)
torch.fmod(x, f)
torch.fmod(n, k)
torch.pow(x, 3)
torch.pow(2.0, x)
torch.float_power(x, 2)
torch.maximum(x, y)
torch.minimum(x, y)
torch.maximum(n, n)
torch.maximum(x, h)
torch.maximum(x, 0)
torch.atan2(x, y)
torch.hypot(x, y)
torch.logaddexp(x, y)
torch.logaddexp2(x, y)
torch.xlogy(x, y)
torch.xlogy(x, f)
torch.logical_and(x, m)
x.logical_or(y)
m.logical_xor(b)
torch.bitwise_and(n, k)
n.bitwise_or(k)
m.bitwise_xor(b)
torch.isclose(x, u)
x.isclose(x, equal_nan=True)
torch.allclose(x, x)
torch.allclose(x, u, rtol=0.1, atol=10.0)
torch.equal(x, u)
x.equal(x)
n.equal(n.clone())
torch.where(m, x, u)
torch.where(b, x, y)
torch.where(m, x, f)
torch.where(m, f, x)
torch.where(m, 0.0, -torch.inf)
torch.where(m, 0, k)
torch.where(m, n, f)
torch.where(m, x, h)
torch.where(m)
torch.where(n, x, u)
x.where(m, u)
x.where(m, 0)
x.masked_fill(m, f)
x.masked_fill(b, -torch.inf)
x.masked_fill(b, t)
x.masked_fill(n, 0)
n.masked_fill(m, k)
n.masked_fill(m, f)
m.masked_fill(b, False)
torch.masked_fill(x, m, u)
x.clamp(0, 1)
x.clamp(min=0)
x.clamp(max=f)
x.clamp()
n.clamp(min=k)
n.clamp(0.5, 1.5)
x.clamp(min=u)
x.clip(-0.5, 0.5)
x.clamp_min(0)
x.clamp_max(0.5)
torch.lerp(v, w, 0.3)
torch.lerp(v, w, w)
torch.addcmul(x, u, y, value=0.5)
torch.addcdiv(v, w, v, value=0.5)
torch.result_type(x, n)
torch.promote_types(x.dtype, h.dtype)
# in place
x.add_(u)
x.add_(y)
n.add_(f)
x.sub_(f)
x.mul_(u)
x.mul_(k)
x.div_(k)
n.div_(k)
x.pow_(2)
x.remainder_(f)
n.floor_divide_(k)
x.neg_()
x.exp_()
x.expm1_()
(x * x).log_()
(x * x).log2_()
(x * x).sqrt_()
(x * x + 1).rsqrt_()
x.reciprocal_()
x.sin_()
x.cos_()
x.tanh_()
x.sigmoid_()
x.relu_()
x.abs_()
x.square_()
x.floor_()
x.ceil_()
x.round_()
x.clamp_(0, 1)
x.clip_(min=0)
x.masked_fill_(m, f)
x.masked_fill_(b, 0)
y.expand(x.shape).masked_fill_(m, 3)
y.masked_fill_(m, 0)
n.masked_fill_(m, 2)
x.nan_to_num_()
v.lerp_(w, 0.5)
x.addcmul_(u, u)
m.logical_and_(b)
m.logical_or_(m)
m.logical_xor_(m)
m.logical_not_()
m.bitwise_and_(b)
m.bitwise_or_(m)
n.bitwise_xor_(k)
n.bitwise_not_()
x.eq_(u)
x.ne_(u)
x.lt_(u)
x.le_(u)
x.gt_(u)
x.ge_(u)
x.fill_(f)
x.fill_(t)
x.zero_()
x.copy_(u)
x.copy_(y)
n.copy_(u)
x.tril_()
x.triu_(1)
x.cumsum_(d)
iadd(x, y)
iadd(n, f)
imul(x, 2)
isub(x, u)
itruediv(x, 2)
itruediv(n, 2)
iand(m, b)
ior(m, b)
ixor(m, m)
# dtypes
x.to(torch.float64)
x.to(torch.float16)
x.to(torch.bfloat16)
x.to(dtype=torch.float32)
x.to(x.dtype)
x.to(n)
x.to('cpu', torch.float32)
x.to(x.dtype, copy=True)
x.float()
x.double()
x.half()
x.bfloat16()
n.long()
n.int()
n.short()
n.bool()
n.double()
n.to(torch.uint8)
n.to(torch.int8)
m.int()
m.float()
(x.nan_to_num(0, 0, 0).clamp(-9, 9) * 10).long()
(x.nan_to_num(0, 0, 0).clamp(-9, 9) * 10).int()
x.type(torch.float64)
x.type()
x.type_as(h)
n.type_as(x)
x.dtype
x.dtype.itemsize
x.dtype.is_floating_point
n.dtype.is_signed
x.is_floating_point()
torch.is_floating_point(n)
torch.is_complex(x)
torch.is_tensor(x)
x.element_size()
x.itemsize
x.nbytes
torch.finfo(x.dtype).eps
torch.finfo(x.dtype).max
torch.finfo(x.dtype).min
torch.finfo(x.dtype).tiny
torch.finfo(x.dtype).smallest_normal
torch.finfo(x.dtype).bits
torch.finfo(n.dtype)
torch.iinfo(torch.int32).max
torch.iinfo(torch.uint8).min
torch.iinfo(torch.int8).bits
torch.finfo(torch.float8_e4m3fn).bits, torch.float8_e5m2.itemsize
torch.zeros(2, dtype=torch.float8_e4m3fn).element_size()
n.to(torch.int16)
torch.get_default_dtype()
# numbers and lists
t.item()
x.item()
x.tolist()
n.tolist()
m.tolist()
x.sum().item()
float(t)
int(z)
bool(t)
bool(x)
complex(t)
len(x)
[1.0, 2.0, 3.0, 4.0, 5.0][z]
list(x)
x.dim()
x.ndim
x.numel()
torch.numel(x)
x.nelement()
x.shape
x.shape.numel()
x.shape[-1]
x.shape[:-1]
x.shape + (2,)
x.size()
x.size(d)
x.stride()
x.stride(-1)
x.is_contiguous()
x.contiguous().storage_offset()
x[..., 1:].storage_offset()
x.get_device()
x.device
repr(x)
repr(n)
repr(m)
repr(x.double())
repr(x * 1e-6)
repr(n * 1000000)
repr(torch.tensor([1.0, 2.0]))
repr(torch.tensor([]))
repr(torch.zeros(2, 0))
repr(torch.arange(2000) * 1.5)
repr(torch.arange(2000).view(50, 40))
repr(torch.arange(30))
repr(x.bfloat16())
repr(x.dtype)
repr(x.shape)
f'{t:.3f}'
f'{x}'
repr(torch.complex(t.float(), t.float()))
repr(torch.tensor([1.0, float('nan'), float('inf')]))
repr(torch.tensor([0.0]))
1.0 in x
x.T
x.mT
x.mH
x.H
x.adjoint()
x.real
x.is_leaf
x.grad_fn
x.is_cuda, x.is_meta, x.is_nested, x.is_quantized, x.is_sparse
x.untyped_storage().nbytes() // x.element_size() >= x.numel()
x.data_ptr() == x.view(x.shape).data_ptr(), x.data_ptr() == u.data_ptr()
x.untyped_storage().data_ptr() == x[..., 0].untyped_storage().data_ptr()
x.clone().set_(x.untyped_storage(), x.storage_offset(), x.shape, x.stride())
x.set_(x.untyped_storage().clone(), x.storage_offset(), x.shape, x.stride())
str(x.layout)
x.requires_grad
x.grad
x.requires_grad_(False)
# shapes
x.view(-1)
x.view(x.shape)
x.view(*x.shape, 1)
x.view(2, -1)
x.view(7)
x.view(-1, -1)
x.view_as(u)
x.reshape(-1)
torch.reshape(x, (-1, 1))
x.reshape(-1, x.shape[-1])
x.reshape(5, 5)
x.reshape(0, -1)
torch.zeros(0, 2).reshape(0, -1)
x.reshape_as(u)
x.mT.reshape(-1)
x.mT.view(-1)
x.transpose(0, -1).view(x.shape[-1], -1)
x.flatten()
x.flatten(1)
x.flatten(d)
x.flatten(-2)
torch.flatten(x, 0, 1)
x.ravel()
x.unflatten(-1, (-1, 1))
x.unflatten(d, (1, -1))
x.unflatten(-1, (2, -1))
x.permute(*range(x.dim())[::-1])
x.permute(list(range(x.dim())))
torch.permute(x, (0,))
x.permute(0, 0)
x.transpose(d, e)
torch.transpose(x, 0, 1)
x.swapaxes(d, e)
x.t()
x.movedim(d, e)
torch.movedim(x, 0, -1)
x.squeeze()
x.squeeze(d)
x.squeeze((0, -1))
x.unsqueeze(d)
x.unsqueeze(-1)
torch.unsqueeze(x, 0)
x.unsqueeze(9)
y.expand(x.shape)
y.expand_as(x)
x.expand(2, *x.shape)
x.expand(2, *[-1] * x.dim())
x.expand(3)
torch.ones(3, 1).expand(-1, 5)
torch.ones(3, 2).expand(-1, 5)
torch.broadcast_to(y, x.shape)
torch.broadcast_tensors(x, y)
torch.broadcast_shapes((2, 1), (3,))
torch.broadcast_shapes((2, 1), (2, 3), 3)
x.contiguous()
x.mT.contiguous()
x.clone()
torch.clone(y)
torch.cat([x, u])
torch.cat([x, u], d)
torch.cat((x, u, x), dim=-1)
torch.cat([x, n], -1)
torch.cat([x, y])
torch.cat([x, h], -1)
torch.cat([torch.zeros(0), x.flatten()])
torch.cat([])
torch.cat(x)
torch.cat([1, 2])
torch.concat([x, u], -1)
torch.concatenate([x, u], -1)
torch.stack([x, u])
torch.stack([x, u], d)
torch.stack([x, u], -1)
torch.stack([x, y])
torch.stack((t, t))
torch.hstack([x, u])
torch.vstack([x, u])
x.narrow(d, 0, 1)
x.narrow(-1, -1, 1)
x.narrow(0, 1, 9)
x.split(1)
x.split(2, -1)
torch.split(x, [1, x.shape[-1] - 1], -1)
x.split([1, 9], 0)
x.chunk(2, -1)
x.chunk(3, d)
torch.chunk(x, 2)
torch.tensor_split(x, 2, -1)
x.tensor_split([1, 2], d)
x.unbind()
torch.unbind(x, d)
x.select(d, 0)
x.select(-1, -1)
x.unfold(-1, 2, 1)
x.unfold(d, 1, 1)
x.unfold(0, 9, 1)
x.diagonal()
x.diagonal(1, -2, -1)
torch.diagonal(x, -1, -2, -1)
x.repeat(2, *[1] * x.dim())
x.repeat(*[2] * x.dim())
x.repeat(1)
x.tile(2)
x.repeat_interleave(2, d)
torch.repeat_interleave(x, 2)
torch.repeat_interleave(torch.arange(3), torch.tensor([2, 0, 1]))
x.repeat_interleave(torch.tensor([1, 2]), 0)
x.flip(d)
x.flip(0, -1)
torch.flip(x, [d])
x.roll(1, d)
torch.roll(x, 1)
x.roll((1, 2), (0, -1))
x.diff()
x.diff(dim=d)
n.diff()
m.diff()
n.diff(prepend=n[..., :1])
x.diff(n=2)
torch.diff(torch.arange(4), append=torch.tensor([9]))
torch.arange(6).view(2, 3).rot90(3)
torch.rot90(torch.arange(6).view(2, 3))
torch.atleast_2d(x)
torch.atleast_2d(torch.arange(3))
x.moveaxis(0, -1)
x.swapdims(0, -1)
x.broadcast_to(x.shape)
y.broadcast_to(*x.shape)
x.as_strided((1,), (1,))
torch.meshgrid(torch.arange(2), torch.arange(3), indexing='ij')
torch.meshgrid(torch.arange(2), torch.arange(3), indexing='xy')
# indexing
x[0]
x[-1]
x[9]
x[-9]
x[0, 0]
x[..., 0]
x[..., -1:]
x[..., None]
x[None]
x[:, None]
x[1:]
x[:-1]
x[::2]
x[..., ::2]
x[..., 1::2]
x[::-1]
x[0:0]
x[5:2]
x[..., 0, :]
x[:, :, 0]
x[..., :1, 0]
x[0, ..., None, 0]
x[()]
x[...]
x[z * 0]
x[[0, 0]]
x[:, [0]]
x[torch.tensor([0, -1])]
x[torch.tensor([9])]
x[:, torch.tensor([9])]
x[..., i[..., 0] * 0]
x[torch.tensor([[0], [0]]), torch.tensor([0, 0])]
x[torch.tensor([0, 0]), :, torch.tensor([0, 0])]
x[:, torch.tensor([0, 0]), torch.tensor([0, 0])]
x[0, torch.tensor([0, 0])]
x[..., torch.arange(x.shape[-1])]
x[m]
x[~m]
x[m.any(-1)]
x[:, m[0]]
x[torch.tensor([True, False, True])]
x[1.5]
x['a']
x[u]
setitem(x, 0, f)
setitem(x, -1, u[0])
setitem(x, (..., 0), 1)
setitem(x, slice(None, 1), f)
setitem(x, (..., slice(None, None, 2)), f)
setitem(x, (..., slice(None, 1)), u)
setitem(x, m, 0)
setitem(x, m, u[m])
setitem(x, m, u)
setitem(x, ~m, t)
setitem(x, torch.tensor([0]), f)
setitem(x, (..., torch.tensor([0, 0])), f)
setitem(x, [0], u[:1])
setitem(x, 0, u)
setitem(x, 0, [1.0])
setitem(n, 0, f)
setitem(m, (..., 0), True)
setitem(x, ..., y)
setitem(x, slice(1, None), u[:-1])
setitem(x[..., 0], 0, f)
x.nonzero()
torch.nonzero(n)
m.nonzero(as_tuple=True)
x.index_select(-1, torch.tensor([0, 0]))
torch.index_select(x, d, torch.tensor([0]))
x.masked_select(m)
torch.masked_select(x, b)
x.gather(-1, i)
torch.gather(x, d, i)
x.gather(-1, i + 9)
torch.take_along_dim(x, i, -1)
x.take_along_dim(i, dim=-1)
x.scatter(-1, i, u)
x.scatter(-1, i, f)
x.scatter(-1, i, value=1)
m.scatter(-1, i, True)
x.scatter_(-1, i, 0.5)
x.scatter_add(-1, i[..., :1], u)
x.scatter_add_(-1, i[..., :1], u)
x.scatter(-1, i, n)
x.index_copy(-1, torch.tensor([0]), u[..., :1])
x.index_copy_(-1, torch.tensor([0]), u[..., :1])
x.index_fill(d, torch.tensor([0]), f)
x.index_fill_(-1, torch.tensor([0]), 0)
x.index_add(-1, torch.tensor([0, 0]), u[..., :1].expand(*u.shape[:-1], 2))
x.index_add_(-1, torch.tensor([0]), u[..., :1])
x.tril()
x.triu()
torch.tril(x, 1)
torch.triu(x, -1)
torch.ones(3, 4).tril(k)
torch.ones(3, 4, dtype=torch.bool).triu(k)
torch.tril_indices(3, 4)
torch.tril_indices(3, 3, -1)
torch.diag(x)
torch.diag(x, 1)
x.diag_embed()
x.diag_embed(1)
torch.zeros(3, 3).fill_diagonal_(3)
torch.triu_indices(3, 4, 1)
# no axes
o.view(1)
o.view(-1)
o.view(1, 1)
o.view(2)
o.reshape(-1)
o.reshape(())
o.flatten()
o.unsqueeze(0)
o.unsqueeze(-1)
o.squeeze()
o.expand(3)
o.expand(2, 3)
o.clone()
o.contiguous()
o.T
o.mT
o.t()
o.transpose(0, -1)
o.item()
o.tolist()
o.dim()
o.size()
o.shape
len(o)
list(o)
o[0]
o[...]
o[None]
o[()]
o.sum()
o.sum(-1)
o.sum(0, keepdim=True)
o.mean(-1)
o.prod()
o.amax(-1)
o.max()
o.max(0)
o.argmax()
o.argmax(-1)
o.any()
o.all(0)
o.cumsum(0)
o.softmax(-1)
o.softmax(0)
o.log_softmax(-1)
o.logsumexp(-1)
o.norm()
o.sort()
o.argsort()
o.topk(1)
o.sum(1)
o.softmax(1)
o + o
o * f
o / k
o == o
o.abs()
o.clamp(0, 1)
o.masked_fill(o > 0, 0)
torch.where(o > 0, o, f)
torch.maximum(o, o)
torch.stack([o, o])
torch.cat([o, o])
torch.tensor([o, o])
torch.full((2,), 1.0) * o
o.fill_(2)
o.add_(1)
setitem(o, ..., 3)
setitem(o, (), 3)
o.to(torch.float64)
o.long() if o.isfinite() else 0
repr(o)
repr(o.bool())
# reductions
x.sum()
x.sum(d)
torch.sum(x, dim=-1, keepdim=True)
x.sum((0, -1))
x.sum([0])
x.sum(axis=-1)
x.sum(-1, keepdims=True)
x.sum(dtype=torch.float64)
n.sum()
n.sum(d)
m.sum(-1)
x.sum(())
x.sum(-1).sum(-1)
x.prod()
x.prod(d)
n.prod(-1, keepdim=True)
x.mean()
x.mean(d)
torch.mean(x, (0, -1), keepdim=True)
n.mean()
n.mean(dtype=torch.float32)
x.var()
x.var(d)
x.var(-1, unbiased=False)
x.var(-1, correction=0, keepdim=True)
torch.var(x, dim=d, keepdim=True)
n.var()
x.std()
x.std(d)
torch.std(x, -1, correction=0)
torch.var_mean(v)
torch.cov(torch.arange(6.0).view(2, 3) ** 2)
torch.cov(torch.arange(3.0))
torch.var_mean(v, -1, keepdim=True)
x.any()
m.any(d)
torch.any(m, -1, keepdim=True)
n.any(-1)
m.all()
m.all(-1, keepdim=True)
torch.all(x, d)
n.all()
x.count_nonzero()
n.count_nonzero(d)
x.amax()
x.amax(d)
torch.amax(x, -1, keepdim=True)
x.amax((0, -1))
x.amin(d)
n.amax(-1)
x.max()
x.max(d)
torch.max(x, -1, keepdim=True)
x.max(-1).values
x.max(dim=d)[0]
torch.max(x, u)
x.min()
x.min(-1)
torch.min(x, d)
torch.min(x, u)
x.argmax()
x.argmax(d)
torch.argmax(x, -1, keepdim=True)
x.argmin(-1)
torch.zeros(2, 0).max()
torch.zeros(2, 0).amax(-1)
torch.zeros(0).max(0)
torch.zeros(2, 0).sum(-1)
torch.zeros(2, 0).mean(-1)
torch.zeros(2, 0).argmax(-1)
torch.zeros(2, 0).softmax(-1)
torch.zeros(2, 0).logsumexp(-1)
torch.zeros(2, 0).all(-1)
x.cummax(-1)
torch.cummin(x, d)
x.argsort()
x.argsort(d, descending=True)
torch.argsort(n, dim=-1, stable=True)
m.int().argsort(stable=True)
x.sort()
x.sort(d)
x.sort(-1, descending=True)
torch.sort(x, dim=d, descending=True, stable=True)
x.sort(-1).values
torch.topk(v, 1)
v.topk(1, d)
v.topk(2, -1).values
x.topk(1, largest=False)
x.topk(9)
n.unique()
torch.unique(n, return_inverse=True)
n.unique(return_counts=True)
torch.unique_consecutive(torch.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True)
v.median()
v.median(-1)
n.median(d, keepdim=True)
torch.tensor([1, 1, 1, 2]).topk(2).values
x.cumsum(d)
torch.cumsum(x, -1)
n.cumsum(-1)
m.cumsum(-1)
x.cumprod(-1)
torch.cumprod(n, d)
x.softmax(-1)
torch.softmax(x, d)
torch.softmax(x, dim=0)
x.softmax(-1, dtype=torch.float64)
n.softmax(-1)
x.softmax(9)
torch.softmax(x, axis=-1)
x.masked_fill(m, -torch.inf).softmax(-1)
x.log_softmax(-1)
torch.log_softmax(x, d)
x.logsumexp(-1)
torch.logsumexp(x, d, keepdim=True)
x.logsumexp((0, -1))
torch.logcumsumexp(x, -1)
x.norm()
x.norm(dim=d)
x.norm(2, -1, keepdim=True)
x.norm(1)
torch.norm(x, dim=-1)
x.norm(p=1, dim=d)
torch.linalg.norm(x)
torch.linalg.norm(x, dim=-1)
torch.linalg.norm(x, dim=(0, 1))
torch.linalg.vector_norm(x)
torch.linalg.vector_norm(x, 1, d)
torch.linalg.vector_norm(x, torch.inf, -1, keepdim=True)
torch.linalg.vector_norm(n)
torch.linalg.matrix_norm(x)
# products
a @ c
a @ a
a @ c[..., 0]
a[..., 0, :] @ c
a[..., 0, :] @ c[..., 0]
a @ c.reshape(-1)
torch.matmul(a, c)
a.matmul(c)
a @ 2
a @ t
a @ c.double()
a.double() @ c.double()
(a * 10).round().long() @ (c * 10).round().long()
a.flatten(0, -2) @ c.flatten(0, -3)[0] if c.dim() > 2 else a @ c
torch.mm(a, c)
torch.mm(torch.ones(2, 3), torch.ones(3, 4))
torch.mm(torch.ones(2, 3), torch.ones(2, 4))
torch.mv(torch.ones(2, 3), torch.arange(3.0))
torch.mv(torch.ones(2, 3), torch.arange(2.0))
torch.bmm(a, c)
torch.bmm(torch.ones(2, 2, 3), torch.ones(2, 3, 4))
torch.bmm(torch.ones(2, 2, 3), torch.ones(3, 3, 4))
torch.bmm(torch.ones(2, 2, 3), torch.ones(2, 2, 4))
torch.dot(torch.arange(3.0), torch.arange(3.0))
torch.dot(torch.arange(3.0), torch.arange(4.0))
torch.dot(x, x)
torch.outer(torch.arange(3.0), torch.arange(2.0))
torch.outer(torch.ones(2, 2), torch.ones(2))
torch.vdot(torch.arange(3.0), torch.arange(3.0))
torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4)])
torch.linalg.matrix_power(torch.arange(4.0).view(2, 2), 3)
torch.linalg.inv(torch.tensor([[0.0, 2.0], [1.0, 3.0]]))
torch.linalg.solve(torch.tensor([[0.0, 2.0], [1.0, 3.0]]), torch.ones(2))
torch.dist(v, w)
torch.addmm(torch.ones(2, 4), torch.ones(2, 3), torch.ones(3, 4), beta=2, alpha=0.5)
torch.baddbmm(torch.ones(1, 4), torch.ones(2, 2, 3), torch.ones(2, 3, 4))
torch.ones(2, 3) @ torch.ones(4, 5)
torch.ones(2, 3) @ torch.ones(4)
torch.ones(3) @ torch.ones(4)
torch.ones(3) @ torch.ones(4, 2)
torch.ones(2, 2, 3) @ torch.ones(4, 5)
torch.ones(2, 3) @ torch.ones(2, 4, 5)
torch.ones(2, 2, 3) @ torch.ones(2, 4, 5)
torch.ones(2, 2, 3) @ torch.ones(3, 3, 5)
torch.ones(2, 3) @ torch.ones(3, 2, dtype=torch.float64)
torch.ones(2, 3) @ torch.ones(3, 2, dtype=torch.int64)
torch.ones(2, 2, 3) @ torch.ones(2, 3, 2, dtype=torch.float64)
torch.ones(3) @ torch.ones(3, dtype=torch.float64)
torch.zeros(2, 0) @ torch.zeros(0, 3)
torch.zeros(0, 2) @ torch.zeros(2, 3)
torch.einsum('...ij,...jk->...ik', a, c)
torch.einsum('...ij,...jk', a, c)
torch.einsum('...ij->...ji', a)
torch.einsum('...ij->...i', a)
torch.einsum('...ij->', a)
torch.einsum('...i,...i->...', x, u)
torch.einsum('ij,kj->ik', torch.ones(2, 3), torch.arange(12.0).view(4, 3))
torch.einsum('ij,j->i', torch.ones(2, 3), torch.arange(3.0))
torch.einsum('i,j->ij', torch.arange(2.0), torch.arange(3.0))
torch.einsum('ii->i', torch.arange(9.0).view(3, 3))
torch.einsum('ii', torch.arange(9.0).view(3, 3))
torch.einsum('ij,jk,kl->il', torch.ones(2, 3), torch.arange(12.0).view(3, 4), torch.ones(4, 2))
torch.einsum('bhld,bhsd->bhls', torch.arange(24.0).view(1, 2, 3, 4), torch.ones(1, 2, 5, 4))
torch.einsum('bhld, hdr -> bhlr', torch.arange(24.0).view(1, 2, 3, 4), torch.ones(2, 4, 2))
torch.einsum('ab,ab->ab', torch.ones(2, 3), torch.arange(6.0).view(2, 3))
torch.einsum('ba,ca', [torch.ones(2, 3), torch.arange(6.0).view(2, 3)])
torch.einsum('ij,jk->ik', torch.ones(2, 3), torch.ones(4, 2))
torch.einsum('ij,jk->ik', torch.ones(2, 3))
torch.einsum('ijk->i', torch.ones(2, 3))
torch.einsum('ij->ik', torch.ones(2, 3))
torch.einsum('i->i', torch.ones(2, 3))
torch.linalg.vecdot(x, u)
torch.linalg.solve_triangular(torch.eye(3) * 2 + torch.ones(3, 3).tril(-1), torch.arange(6.0).view(3, 2), upper=False)
torch.linalg.solve_triangular(torch.ones(2, 3, 3), torch.arange(6.0).view(3, 2), upper=False, unitriangular=True)
torch.linalg.solve_triangular(torch.ones(3, 3), torch.arange(6.0).view(3, 2), upper=True)
torch.cdist(torch.arange(6.0).view(3, 2), torch.ones(4, 2))
torch.kron(torch.ones(2, 1), torch.arange(6.0).view(2, 3))
torch.block_diag(torch.ones(2, 1), torch.arange(3.0))
# new ones
torch.tensor(1)
torch.tensor(1.5)
torch.tensor(True)
torch.tensor([1, 2, 3])
torch.tensor([1, 2.5])
torch.tensor([True, False])
torch.tensor([[1, 2], [3, 4]], dtype=torch.float64)
torch.tensor([[1.0, 2], [3]])
torch.tensor([1, [2]])
torch.tensor([[1], 2])
torch.tensor([])
torch.tensor([[], []])
torch.tensor((1, 2))
torch.tensor(range(3))
torch.tensor([t, 2])
torch.tensor([0.1], dtype=torch.bfloat16)
torch.tensor([1.9, -1.9], dtype=torch.int64)
torch.tensor([2, 0], dtype=torch.bool)
torch.tensor('a')
torch.tensor(None)
torch.tensor([True, 2])
torch.as_tensor(x)
torch.as_tensor(x, dtype=torch.float64)
torch.as_tensor([1, 2])
torch.asarray([1, 2])
torch.zeros(2, 3)
torch.zeros((2, 3))
torch.zeros([2])
torch.zeros(())
torch.zeros(2, dtype=torch.int64)
torch.zeros(x.shape, dtype=x.dtype)
torch.zeros(x.shape[0], *x.shape)
torch.zeros(-1)
torch.ones(-1)
torch.zeros(2, -3)
torch.full((-1,), 1.0)
torch.empty(-1)
x.new_zeros(-1)
torch.stack([])
x[True]
x[None, True]
x[False]
torch.zeros(2, device='cpu')
torch.zeros(2, requires_grad=False)
torch.zeros(size=(2, 3))
torch.ones(3, dtype=torch.bool)
torch.ones(2, 1)
torch.empty(2, 3).shape
torch.empty_like(x).shape
x.new_empty(2, 3).dtype
torch.zeros_like(x)
torch.zeros_like(x, dtype=torch.bool)
torch.ones_like(n)
torch.ones_like(x, dtype=torch.float64)
torch.full((2, 3), 1.5)
torch.full((2,), 3)
torch.full((), True)
torch.full((2,), -torch.inf)
torch.full((2,), 1, dtype=torch.float32)
torch.full_like(x, 2)
torch.full_like(n, 2.5)
x.new_zeros(2, 3)
x.new_zeros((2,))
x.new_ones(2)
n.new_full((2,), 3)
x.new_full((2, 2), f)
n.new_tensor([1.5, 2])
x.new_tensor([1, 2])
torch.arange(5)
torch.arange(5.0)
torch.arange(1, 5)
torch.arange(1, 5, 2)
torch.arange(5, 1, -1)
torch.arange(0, 1, 0.25)
torch.arange(0.0, 1, 0.3)
torch.arange(5, dtype=torch.float32)
torch.arange(5, dtype=torch.int32)
torch.arange(5, 1)
torch.arange(0, 5, 0)
torch.arange(z * 0 + 3)
torch.arange(0)
torch.arange(end=3)
torch.linspace(0, 1, 5)
torch.linspace(-2, 3, 4)
torch.linspace(1, 2, 1)
torch.logspace(0, 2, 3)
torch.logspace(0, -3, 4, base=2)
torch.eye(3)
torch.eye(2, 3)
torch.eye(2, dtype=torch.bool)
torch.rand(2, 3).shape
[torch.manual_seed(0)][:0]
torch.rand_like(x).shape
torch.randn(2).dtype
torch.randn_like(x).dtype
torch.randint(3, (4,)).dtype
torch.randint(1, 2, (4,))
torch.randperm(4).sort().values
torch.polar(torch.ones(3), torch.arange(3.0))
torch.complex(torch.ones(2), torch.arange(2.0))
torch.view_as_real(torch.polar(torch.ones(3), torch.arange(3.0)))
torch.view_as_complex(torch.arange(6.0).view(3, 2))
torch.polar(torch.ones(3), torch.arange(3.0)) * torch.view_as_complex(torch.arange(6.0).view(3, 2))
torch.view_as_complex(torch.arange(6.0).view(3, 2)).abs()
torch.view_as_complex(torch.arange(6.0).view(3, 2)).imag
torch.view_as_complex(torch.arange(6.0).view(3, 2)).real
torch.view_as_complex(torch.arange(6.0))
torch.view_as_complex(torch.arange(6).view(3, 2).bfloat16())
torch.exp(1j * torch.arange(3.0))
(1j * torch.arange(3.0)).exp().real
torch.ones(2).cfloat().dtype
torch.ones(2).cdouble()
torch.complex64.is_complex, torch.complex128.itemsize
torch.is_grad_enabled() and False
torch.pi + torch.e
# vmap
torch.vmap(lambda p: p * 2)(x)
torch.vmap(torch.dot)(torch.ones(3, 2), torch.arange(6.0).view(3, 2))
torch.vmap(lambda p, q: p + q, in_dims=(0, None))(torch.arange(3), torch.arange(2))
torch.vmap(lambda p: (p, p + 1), in_dims=-1, out_dims=1)(torch.ones(2, 3))
torch.vmap(torch.vmap(lambda p, q: p <= q, in_dims=(None, 0)), in_dims=(0, None))(torch.arange(3), torch.arange(2))
# F and nn
F.softmax(x, -1)
F.softmax(x, dim=d)
F.softmax(x, -1, dtype=torch.float64)
F.log_softmax(x, -1)
F.linear(x, u.reshape(-1, x.shape[-1]))
F.linear(a, c[..., 0].flatten()[:a.shape[-1]])
F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.arange(4.0))
F.linear(torch.ones(2, 3), torch.ones(3, 4))
F.silu(x)
F.sigmoid(x)
F.tanh(x)
F.softplus(x)
F.logsigmoid(x)
F.relu(x)
F.elu(x)
F.gelu(x)
F.gelu(x, approximate='tanh')
F.leaky_relu(x)
F.glu(torch.arange(6.0))
F.normalize(x, dim=-1)
F.normalize(x, p=1, dim=d)
F.layer_norm(x, x.shape[-1:])
F.layer_norm(x, (x.shape[-1],), u.flatten()[:x.shape[-1]], u.flatten()[:x.shape[-1]], 1e-3)
F.layer_norm(x, (9,))
F.rms_norm(x, x.shape[-1:])
F.rms_norm(x, x.shape[-1:], u.flatten()[:x.shape[-1]], 1e-6)
torch.rms_norm(x, x.shape[-1:])
torch.layer_norm(x, x.shape[-1:])
F.pad(x, (1, 2))
F.pad(x, (0, 1, 2, 0))
F.pad(x, (1, 0), value=f)
F.pad(x, (-1, 1))
F.pad(m, (1, 1))
F.one_hot(torch.arange(3))
F.one_hot(torch.tensor([[0, 2]]), 4)
F.one_hot(torch.tensor([4]), 2)
F.embedding(torch.tensor([[0, 1]]), torch.arange(6.0).view(3, 2))
F.dropout(x, 0.5, training=False)
F.dropout(x, 0.0)
F.dropout(x, 1.5)
torch.dropout(x, 0.0, True)
F.cosine_similarity(v, w, dim=-1)
F.conv1d(torch.arange(10.0).view(1, 2, 5), torch.arange(12.0).view(2, 2, 3), torch.ones(2))
F.conv1d(torch.arange(10.0).view(2, 5), torch.arange(6.0).view(2, 1, 3), padding=2, groups=2)
F.conv1d(torch.arange(10.0).view(2, 5), torch.arange(4.0).view(1, 2, 2), stride=2, dilation=2)
F.mse_loss(x, u)
F.kl_div(x, u, reduction='sum')
F.scaled_dot_product_attention(q, q, q)
F.scaled_dot_product_attention(q, q, q, is_causal=True)
F.scaled_dot_product_attention(q, q, q, scale=0.5)
F.scaled_dot_product_attention(q, q, q, torch.ones(q.shape[-2], q.shape[-2]).tril().bool())
F.scaled_dot_product_attention(q, q, q, torch.arange(1.0 * q.shape[-2]).to(q.dtype)[None].expand(q.shape[-2], -1))
F.scaled_dot_product_attention(q, q, q.double())
F.scaled_dot_product_attention(torch.ones(1, 4, 2, 3), torch.ones(1, 2, 5, 3), torch.arange(30.0).view(1, 2, 5, 3), enable_gqa=True)
F.scaled_dot_product_attention(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3), torch.zeros(2, 2).bool())
F.scaled_dot_product_attention(torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 2), is_causal=True)
loaded(nn.Linear(3, 2))(torch.arange(6.0).view(2, 3))
loaded(nn.Linear(3, 2, bias=False))(torch.ones(2, 4))
nn.Linear(3, 2).weight.shape
nn.Linear(3, 2, bias=False).bias
[name for name, _ in nn.Linear(3, 2).named_parameters()]
loaded(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))(torch.ones(3))
loaded(nn.Sequential(nn.Linear(3, 2), nn.SiLU(), nn.GELU(), nn.Dropout(0.5))).eval()(torch.ones(3))
sorted(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)).state_dict())
loaded(nn.LayerNorm(3))(torch.arange(6.0).view(2, 3))
loaded(nn.RMSNorm(3))(torch.arange(6.0).view(2, 3))
loaded(nn.Embedding(3, 2))(torch.tensor([2, 0]))
nn.Identity()(x)
len(list(nn.Sequential(nn.Linear(1, 2), nn.ReLU()).modules()))
len(list(nn.Sequential(nn.Linear(1, 2), nn.ReLU()).children()))
[name for name, _ in nn.Sequential(nn.Linear(1, 2)).named_modules()]
[p.shape for p in nn.Linear(3, 2).parameters()]
[name for name, _ in nn.Linear(1, 2).named_buffers()]
list(nn.Linear(1, 2).buffers())
nn.Linear(1, 2).requires_grad_(False).weight.requires_grad
nn.Module().register_buffer('table', x)
nn.Module().register_parameter('weight', None)
nn.Module().add_module('first', nn.Identity())
nn.Linear(1, 2).wieght
nn.Linear(1, 2).eval().training
nn.Softmax(-1)(x)
nn.Tanh()(x)
nn.Sigmoid()(x)
nn.Parameter(x).requires_grad
nn.Parameter(x)
nn.Buffer(x)
len(nn.ModuleList([nn.Linear(1, 1), nn.Identity()]))
nn.ModuleList([nn.Linear(1, 2)])[0].out_features
nn.Linear(1, 2).train().training
nn.Linear(2, 2).double().weight.dtype
nn.Linear(2, 2).to(torch.bfloat16).weight.dtype
nn.Linear(2, 2).load_state_dict({'weight': torch.ones(2, 2)})
nn.Linear(2, 2, bias=False).load_state_dict({'weight': torch.ones(2, 3)})
nn.Linear(2, 2, bias=False).load_state_dict({'wieght': torch.ones(2, 2)})
nn.init.zeros_(x)
nn.init.ones_(x)
nn.init.constant_(x, 2.0)
nn.init.normal_(torch.zeros(2)).shape
nn.init.uniform_(torch.zeros(2)).shape
nn.init.xavier_uniform_(torch.zeros(2, 2)).shape
x.foo
torch.foo
nn.foo
F.foo
torch.exp(2.0)
torch.exp('a')
x + [1]
x * None
x @ None
torch.softmax(x)
x + x.max(-1)
""".strip().splitlines()
