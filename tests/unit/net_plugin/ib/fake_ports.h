// Ports of a FakeProvider's devices, behind a table in which a test may replace functions, by
// lambdas that capture nothing, at any time. What is made at them has to be destroyed before.
#pragma once

#include <gtest/gtest.h>

#include "fake_provider.h"
#include "net_plugin/ib/port.h"

namespace cinch::net::ib {

// The table of the provider that lives, for functions that go on to it.
VerbsApi fakeApi();

// A device stays as long as its provider.
inline ibv_device* deviceAt(const VerbsApi& api, int index) {
  int n = 0;
  ibv_device** list = api.getDeviceList(&n);
  ibv_device* const device = list[index];
  api.freeDeviceList(list);
  return device;
}

class FakePorts {
 public:
  explicit FakePorts(const FakeOptions& options = {}, const Settings& settings = {})
      : provider(options), api(provider.api()) {
    for (int i = 0; i < options.nDevices; ++i) {
      ports_.push_back(std::move(Port::open(api, deviceAt(api, i), 1, settings).value()));
    }
  }
  ~FakePorts() {
    ports_.clear();
    EXPECT_EQ(provider.leftovers(), "");
  }

  Port& operator[](size_t index) { return *ports_[index]; }

  FakeProvider provider;
  VerbsApi api;

 private:
  std::vector<std::unique_ptr<Port>> ports_;
};

}  // namespace cinch::net::ib
