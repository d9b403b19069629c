/// Walks over the graph of commits. Each visits a commit once, whatever the number of merges is, and none below the place
/// that it looks for.
final class CommitGraph {
    private var read: (Int64) throws -> CommitNode
    private var nodes: [Int64: CommitNode] = [:]
    private var tips: [Int64: Set<Int64>] = [:]

    convenience init(_ store: CommitStore) { self.init(reading: store.node) }

    /// - Parameter read: Reads a commit by its number.
    init(reading read: @escaping (Int64) throws -> CommitNode) { self.read = read }

    /// Goes on in another transaction, in which the commits that were read have the same numbers.
    func read(from store: CommitStore) { read = store.node }

    func node(_ n: Int64) throws -> CommitNode {
        if let node = nodes[n] { return node }
        let node = try read(n)
        nodes[n] = node
        return node
    }

    // MARK: Ancestors

    /// A commit and its ancestors whose generation is not below one.
    func ancestors(of n: Int64, notBelow generation: UInt64) throws -> Set<Int64> {
        var (found, open): (Set<Int64>, [Int64]) = ([n], [n])
        while let next = open.popLast() {
            for parent in try node(next).parents where try node(parent).generation >= generation {
                if found.insert(parent).inserted { open.append(parent) }
            }
        }
        return found
    }

    /// Whether a commit is another one or an ancestor of it.
    func isAncestor(_ n: Int64, of other: Int64) throws -> Bool {
        if n == other { return true }
        let generation = try node(n).generation
        guard try node(other).generation > generation else { return false }
        return try ancestors(of: other, notBelow: generation).contains(n)
    }

    /// The common ancestor with the greatest generation and then the greatest identifier, and what each of the two has
    /// beyond it: its ancestors, itself included, that are no ancestors of the base.
    func base(of first: Int64, _ second: Int64) throws -> (base: CommitNode?, sides: [Set<Int64>]) {
        var heap = NodeHeap()
        var marks: [Int64: UInt8] = [:]
        func mark(_ n: Int64, _ bits: UInt8) throws {
            if let known = marks[n] {
                marks[n] = known | bits
            } else {
                marks[n] = bits
                heap.push(try node(n))
            }
        }
        try mark(first, 1)
        try mark(second, 2)
        var base: CommitNode?
        while base == nil, let next = heap.pop() {
            if marks[next.n] == 3 { base = next }
            for parent in next.parents where base == nil { try mark(parent, marks[next.n] ?? 0) }
        }
        let under = try base.map { base in try covered(by: base, above: [first, second]) } ?? { _ in false }
        let sides = try [first, second].map { start in
            var (side, open): (Set<Int64>, [Int64]) = ([], [start])
            while let next = open.popLast() {
                if try !under(next) && side.insert(next).inserted { open += try node(next).parents }
            }
            return side
        }
        return (base, sides)
    }

    /// Whether a commit is an ancestor of the base: answered for commits that are reached from above.
    private func covered(by base: CommitNode, above: [Int64]) throws -> (Int64) throws -> Bool {
        // How far down others may be that are no ancestors: found by a walk from all of them at once, which ends when
        // everything that is left is an ancestor of the base.
        var heap = NodeHeap()
        var isUnder: [Int64: Bool] = [:]
        var undecided = 0
        func mark(_ n: Int64, _ under: Bool) throws {
            switch isUnder[n] {
            case nil:
                isUnder[n] = under
                if !under { undecided += 1 }
                heap.push(try node(n))
            case false? where under:
                isUnder[n] = true
                undecided -= 1
            default: break
            }
        }
        for n in above where n != base.n { try mark(n, false) }
        try mark(base.n, true)
        while undecided > 0, let next = heap.pop() {
            let under = isUnder[next.n] == true
            if !under { undecided -= 1 }
            for parent in next.parents { try mark(parent, under) }
        }
        return { isUnder[$0] ?? true }
    }

    /// The first commit, in the order of walks, through which all ways lead from some commits to the beginning of the
    /// graph, and that satisfies a condition.
    ///
    /// - Parameter isSuitable: Called with the commit, and with itself and all from which ways lead to it.
    func dominator(
        of tips: Set<Int64>, where isSuitable: (CommitNode, _ above: Set<Int64>) throws -> Bool
    ) throws -> CommitNode? {
        var (heap, seen) = (NodeHeap(), tips)
        for n in tips { heap.push(try node(n)) }
        while let next = heap.pop() {
            if heap.isEmpty, try isSuitable(next, seen) { return next }
            // A way has ended.
            if next.parents.isEmpty { return nil }
            for parent in next.parents where seen.insert(parent).inserted { heap.push(try node(parent)) }
        }
        return nil
    }

    // MARK: Paths

    /// One step from a parent to a child.
    struct Step: Hashable {
        let child: Int64
        /// The number of the parent among the child's.
        let parent: Int
    }

    /// The steps from a commit to a descendant; from nothing to a commit where it is nil.
    ///
    /// - Returns: Nil where there is no such way.
    func path(from ancestor: Int64?, to n: Int64) throws -> [Step]? {
        if ancestor == n { return [] }
        guard let ancestor else { return try pathFromNothing(to: n) }
        let below = try node(ancestor).generation
        let all = try ancestors(of: n, notBelow: below).map(node).sorted(by: CommitNode.precedes)
        var steps: [Int64: Step] = [:]
        for node in all {
            guard let index = node.parents.firstIndex(where: { $0 == ancestor || steps[$0] != nil }) else { continue }
            steps[node.n] = Step(child: node.n, parent: index)
        }
        guard steps[n] != nil else { return nil }
        var (path, place): ([Step], Int64) = ([], n)
        while place != ancestor, let step = steps[place] {
            path.append(step)
            place = try node(place).parents[step.parent]
        }
        return path.reversed()
    }

    /// The first commit of all has a delta from nothing.
    private func pathFromNothing(to n: Int64) throws -> [Step] {
        var (path, place): ([Step], Int64?) = ([], n)
        while let next = place {
            path.append(Step(child: next, parent: 0))
            place = try node(next).parents.first
        }
        return path.reversed()
    }

    // MARK: Leaves

    /// The ordinary commits under a commit, itself included, that are no ancestors of others of them.
    func ordinaryTips(of n: Int64) throws -> Set<Int64> {
        if let known = tips[n] { return known }
        var (found, seen, open): (Set<Int64>, Set<Int64>, [Int64]) = ([], [n], [n])
        while let next = open.popLast() {
            let node = try node(next)
            if node.kind != .merge {
                found.insert(next)
            } else {
                open += node.parents.filter { seen.insert($0).inserted }
            }
        }
        if found.count > 1 {
            let lowest = try found.map { try node($0).generation }.min() ?? 0
            for tip in found {
                let under = try ancestors(of: tip, notBelow: lowest).subtracting([tip])
                found.subtract(under)
            }
        }
        tips[n] = found
        return found
    }

    /// The leaves that are not covered by another one, in the order of walks.
    ///
    /// A leaf is covered when another one has all of its ordinary commits and more, or the same ones and comes first.
    func uncovered(_ leaves: [CommitNode]) throws -> [CommitNode] {
        guard leaves.count > 1 else { return leaves }
        for leaf in leaves { nodes[leaf.n] = leaf }
        let tips = try leaves.map { try ordinaryTips(of: $0.n) }
        let lowest = try tips.joined().map { try node($0).generation }.min() ?? 0
        let under = try leaves.map { try ancestors(of: $0.n, notBelow: lowest) }
        return leaves.indices.filter { x in
            !leaves.indices.contains { y in
                guard x != y, tips[x].isSubset(of: under[y]) else { return false }
                return !tips[y].isSubset(of: under[x]) || CommitNode.precedes(leaves[y], leaves[x])
            }
        }.map { leaves[$0] }.sorted(by: CommitNode.precedes)
    }

    /// Whether all ordinary commits under one commit are under another.
    func ordinaryCommits(of n: Int64, areUnder other: Int64) throws -> Bool {
        let tips = try ordinaryTips(of: n)
        let lowest = try tips.map { try node($0).generation }.min() ?? 0
        return try tips.isSubset(of: ancestors(of: other, notBelow: lowest))
    }
}

/// Commits by generation and identifier, the last in the order of walks first.
private struct NodeHeap {
    private var items: [CommitNode] = []

    var isEmpty: Bool { items.isEmpty }

    mutating func push(_ node: CommitNode) {
        items.append(node)
        var place = items.count - 1
        while place > 0, CommitNode.precedes(items[(place - 1) / 2], items[place]) {
            items.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    mutating func pop() -> CommitNode? {
        guard let first = items.first else { return nil }
        let last = items.removeLast()
        if items.isEmpty { return first }
        items[0] = last
        var place = 0
        while true {
            let child = [2 * place + 1, 2 * place + 2].filter { $0 < items.count }
                .max { CommitNode.precedes(items[$0], items[$1]) }
            guard let child, CommitNode.precedes(items[place], items[child]) else { return first }
            items.swapAt(place, child)
            place = child
        }
    }
}
