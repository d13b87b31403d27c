/* SPDX-License-Identifier: Apache-2.0 */
/* The C header from C++17: y = sum(a + a). */
#include <cstdint>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

#include <tilework/tilework.h>

namespace {

void must(tw_status status)
{
    if (status != TW_OK) throw std::runtime_error(tw_last_error());
}

struct Free {
    void operator()(tw_graph *graph) const { tw_graph_free(graph); }
    void operator()(tw_plan *plan) const { tw_plan_free(plan); }
};

float doubled_sum(std::vector<float> &values)
{
    const int64_t dims[] = {static_cast<int64_t>(values.size())};
    const tw_tensor_desc desc = tw_desc(TW_F32, 1, dims);

    tw_graph *raw_graph = nullptr;
    must(tw_graph_create(&raw_graph));
    const std::unique_ptr<tw_graph, Free> graph(raw_graph);
    tw_tensor a, twice = TW_NONE, sum = TW_NONE;
    must(tw_graph_tensor(graph.get(), &desc, &a));
    must(tw_graph_binary(graph.get(), TW_PW_ADD, a, a, &twice));
    tw_reduce_attrs attrs = {};
    attrs.mode = TW_REDUCE_SUM;
    attrs.axes = 1;
    must(tw_graph_reduce(graph.get(), twice, &attrs, &sum));
    must(tw_graph_output(graph.get(), sum, nullptr));

    tw_plan *raw_plan = nullptr;
    must(tw_plan_create(graph.get(), nullptr, &raw_plan));
    const std::unique_ptr<tw_plan, Free> plan(raw_plan);
    const int64_t bytes = tw_plan_workspace(plan.get());
    std::vector<unsigned char> workspace(static_cast<std::size_t>(bytes) + 64);
    void *start = workspace.data();
    std::size_t room = workspace.size();
    start = std::align(64, room - 64, start, room);
    float result = 0;
    const tw_binding bindings[] = {{a, values.data()}, {sum, &result}};
    must(tw_run(plan.get(), nullptr, 2, bindings, start, bytes));
    return result;
}

} // namespace

int main()
{
    try {
        std::vector<float> values = {1, 2, 3, 4};
        return doubled_sum(values) == 20.0F ? 0 : 1;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
