import numpy, torch, torch_xla.stablehlo
iris = torch.tensor(numpy.loadtxt("iris.csv", delimiter=",", skiprows=1), dtype=torch.float32)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3), torch.nn.LogSoftmax(1))
adam = torch.optim.Adam(net.parameters(), lr=0.02)
for _ in range(500): adam.zero_grad(); torch.nn.functional.nll_loss(net(iris[:, :4]), iris[:, 4].long()).backward(); adam.step()
torch_xla.stablehlo.save_torch_model_as_stablehlo(net.eval(), (iris[:, :4],), "iris-torch")
