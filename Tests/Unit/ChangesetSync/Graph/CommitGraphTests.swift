import TestKit
import Testing

@testable import ChangesetSync

@Suite("Walks over the graph")
struct CommitGraphTests {
    /// A random graph: ordinary commits and merges, in an order in which parents come first.
    private struct RandomGraph {
        var nodes: [CommitNode] = []
        /// By number: the commit and all its ancestors.
        var ancestors: [Set<Int64>] = []

        init(count: Int, _ numbers: inout RandomNumbers) {
            for index in 0..<count {
                var parents: [Int64] = []
                if index > 0, Int.random(in: 0..<8, using: &numbers) > 0 {
                    parents = [Int64.random(in: Int64(max(0, index - 6))..<Int64(index), using: &numbers)]
                    let other = Int64.random(in: Int64(max(0, index - 6))..<Int64(index), using: &numbers)
                    if Bool.random(using: &numbers), other != parents[0] { parents.append(other) }
                }
                let generation = (parents.map { nodes[Int($0)].generation }.max() ?? 0) + 1
                nodes.append(
                    CommitNode(
                        n: Int64(index), id: Samples.id(Int.random(in: 0..<1_000_000, using: &numbers)),
                        parents: parents,
                        generation: generation, kind: parents.count == 2 ? .merge : .ordinary, author: 1,
                        time: HybridTime(rawValue: 0)))
                ancestors.append(parents.reduce([Int64(index)]) { $0.union(ancestors[Int($1)]) })
            }
        }

        func ordinary(_ n: Int64) -> Set<Int64> { ancestors[Int(n)].filter { nodes[Int($0)].kind == .ordinary } }
    }

    @Test("bases, sides, paths and leaves are those that a search through everything finds")
    func oracle() throws {
        for index in 0..<300 {
            var numbers = Simulation.seed.numbers(index)
            let all = RandomGraph(count: 25, &numbers)
            let graph = CommitGraph(reading: { all.nodes[Int($0)] })
            let name: Comment = "\(Simulation.seed), graph \(index)"
            for _ in 0..<10 {
                let (one, other) = (
                    Int64.random(in: 0..<25, using: &numbers), Int64.random(in: 0..<25, using: &numbers)
                )
                let common = all.ancestors[Int(one)].intersection(all.ancestors[Int(other)])
                let base = common.map { all.nodes[Int($0)] }.max(by: CommitNode.precedes)
                let found = try graph.base(of: one, other)
                #expect(found.base == base, name)
                let under = base.map { all.ancestors[Int($0.n)] } ?? []
                #expect(found.sides == [one, other].map { all.ancestors[Int($0)].subtracting(under) }, name)
                #expect(try graph.isAncestor(one, of: other) == all.ancestors[Int(other)].contains(one), name)
                try checkPath(graph, all, one, other, name)
            }
            let parents = Set(all.nodes.flatMap(\.parents))
            let leaves = all.nodes.filter { !parents.contains($0.n) }
            let expected = leaves.filter { x in
                !leaves.contains { y in
                    let (own, others) = (all.ordinary(x.n), all.ordinary(y.n))
                    return y != x && (own.isStrictSubset(of: others) || own == others && CommitNode.precedes(y, x))
                }
            }
            #expect(try graph.uncovered(leaves) == expected.sorted(by: CommitNode.precedes), name)
        }
    }

    private func checkPath(_ graph: CommitGraph, _ all: RandomGraph, _ one: Int64, _ other: Int64, _ name: Comment)
        throws
    {
        let path = try graph.path(from: one, to: other)
        #expect((path != nil) == all.ancestors[Int(other)].contains(one), name)
        var place = one
        for step in path ?? [] {
            #expect(all.nodes[Int(step.child)].parents[step.parent] == place, name)
            place = step.child
        }
        if path != nil { #expect(place == other, name) }
    }

    /// Of an earlier design: the ancestors of n merges were walked along each way, 2^n of them. 44 seconds at 16 merges.
    @Test("defect 4: the walk of ancestors does not grow with the number of ways")
    func exponentialWalk() throws {
        var nodes: [CommitNode] = []
        func add(_ parents: [Int64]) -> Int64 {
            let n = Int64(nodes.count)
            nodes.append(
                CommitNode(
                    n: n, id: Samples.id(nodes.count), parents: parents,
                    generation: (parents.map { nodes[Int($0)].generation }.max() ?? 0) + 1,
                    kind: parents.count == 2 ? .merge : .ordinary, author: 1, time: HybridTime(rawValue: 0)))
            return n
        }
        var last = add([])
        for _ in 0..<2000 {
            let sides = [add([last]), add([last])]
            last = add(sides)
        }
        var reads = 0
        let graph = CommitGraph(reading: { n in
            reads += 1
            return nodes[Int(n)]
        })
        #expect(try graph.ancestors(of: last, notBelow: 0).count == 6001)
        #expect(try graph.base(of: last, 0).base?.n == 0)
        #expect(try graph.path(from: 0, to: last)?.count == 4000)
        #expect(reads == 6001)
    }
}
