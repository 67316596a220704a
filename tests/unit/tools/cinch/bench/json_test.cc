#include "tools/cinch/bench/json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace cinch::bench {
namespace {

using Json = nlohmann::json;

TEST(BenchJson, HoldsEverything) {
  RunFacts facts;
  facts.collective = "all_reduce";
  facts.ncclVersion = "2.28.9";
  facts.cinch = true;
  facts.settings = "CINCH_CODEC=q4";
  facts.ranks = 2;
  Row row{{CallKind::allReduce, 2, 4, 256}, "float", "sum", {}, {}};
  row.outOfPlace = {10, {1, 2}, Checked{3, 0.25, 0.5, {1, 0.5}}, Path::compressed, "q4", "", 7};
  row.inPlace.path = Path::passed;
  row.inPlace.reason = "small";
  const Json json = Json::parse(formatJson(facts, {{42, "node", 1, "0000:01:00.0"}}, {row}));
  EXPECT_EQ(json["format"], 1);
  EXPECT_EQ(json["cinch"]["settings"], "CINCH_CODEC=q4");
  EXPECT_EQ(json["devices"][0]["pid"], 42);
  EXPECT_EQ(json["out_of_bounds"], 3);
  EXPECT_EQ(json["avg_bus_bw"], 1.0);
  const Json& result = json["results"][0];
  EXPECT_EQ(result["size"], 1024);
  EXPECT_EQ(result["out_of_place"]["wrong"], 3);
  EXPECT_EQ(result["out_of_place"]["codec"], "q4");
  EXPECT_TRUE(result["out_of_place"]["reason"].is_null());
  EXPECT_TRUE(result["in_place"]["wrong"].is_null());
  EXPECT_EQ(result["in_place"]["reason"], "small");
}

TEST(BenchJson, WhatIsNotFiniteIsNull) {
  Row row{{CallKind::allReduce, 2, 4, 256}, "float", "sum", {}, {}};
  row.inPlace.checked = Checked{1, std::numeric_limits<double>::infinity(), 0, {}};
  const Json json = Json::parse(formatJson({}, {}, {row}));
  EXPECT_TRUE(json["results"][0]["in_place"]["nmse"].is_null());
  EXPECT_TRUE(json["cinch"]["settings"].is_null());
}

}  // namespace
}  // namespace cinch::bench
