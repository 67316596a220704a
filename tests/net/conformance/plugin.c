#include "tests/net/conformance/plugin.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "net_plugin/abi/net_v10.h"
#include "net_plugin/abi/net_v11.h"
#include "net_plugin/abi/net_v12.h"
#include "net_plugin/abi/net_v8.h"
#include "net_plugin/abi/net_v9.h"

#define NET_VERSION 8
#include "tests/net/conformance/calls.inc"
#define NET_VERSION 9
#include "tests/net/conformance/calls.inc"
#define NET_VERSION 10
#include "tests/net/conformance/calls.inc"
#define NET_VERSION 11
#include "tests/net/conformance/calls.inc"
#define NET_VERSION 12
#include "tests/net/conformance/calls.inc"

const PluginCalls* callsOfVersion(int version) {
  static const PluginCalls* const kCalls[kVersions] = {&callsV8, &callsV9, &callsV10, &callsV11,
                                                       &callsV12};
  return kCalls[version - kOldestVersion];
}

const char* openPlugin(Plugin* plugin, const char* path, int version) {
  static char problem[512];
  memset(plugin, 0, sizeof *plugin);
  plugin->calls = callsOfVersion(version);
  plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (plugin->library == NULL) return dlerror();
  plugin->table = dlsym(plugin->library, plugin->calls->symbol);
  if (plugin->table != NULL) return NULL;
  snprintf(problem, sizeof problem, "it has no %s", plugin->calls->symbol);
  closePlugin(plugin);
  return problem;
}

void closePlugin(Plugin* plugin) {
  dlclose(plugin->library);
  plugin->library = NULL;
  plugin->table = NULL;
}
