#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

extension ProcessInspector {
    /// Stops a child of this process, those that it has started, and so on, to kill them.
    ///
    /// Each is stopped before its children are looked for: what is stopped starts nothing more, and takes note of no end,
    /// so that no number becomes another process's. Where the system has no `/proc`, the child alone is found.
    ///
    /// - Returns: All of them, the child first.
    static func stopTree(of child: Int32) -> [Int32] {
        var tree = [child]
        kill(child, SIGSTOP)
        while true {
            let found = children(of: Set(tree)).filter { !tree.contains($0) }
            if found.isEmpty { return tree }
            for process in found { kill(process, SIGSTOP) }
            tree += found
        }
    }

    private static func children(of parents: Set<Int32>) -> [Int32] {
        let processes = ((try? Files.names(inDirectory: "/proc")) ?? []).compactMap { Int32($0) }
        return processes.filter { process in parent(of: process).map(parents.contains) ?? false }
    }
}
