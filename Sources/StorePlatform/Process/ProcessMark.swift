#if canImport(Darwin)
    import Darwin
#else
    import Glibc
#endif

/// A variable in the environment of a program that this process starts, with a value that no other program has. Every
/// process that the program starts inherits it, so that it can be found when its parents have ended.
///
/// It is needed at a terminal alone. A program in a process group of its own cannot prompt there, unless the terminal is
/// given to that group, and then the system stops the other processes of a pipeline, as a pager, when they use the terminal.
struct ProcessMark {
    private static let name = "CIPHERSTORE_KEY_PROGRAM"
    /// `NAME=value`.
    let variable: [UInt8]

    init() {
        let value = (0..<2).map { _ in String(UInt64.random(in: .min ... .max), radix: 16) }.joined()
        variable = Array("\(Self.name)=\(value)".utf8)
    }

    /// Kills the processes of this session that have the mark. One that was given a session of its own is meant to stay. If
    /// the system has no `/proc`, none is found.
    func killProcesses() {
        let session = getsid(0)
        var killed: Set<Int32> = []
        while true {
            let found = processes(in: session).filter { killed.insert($0).inserted }
            if found.isEmpty { return }
            for process in found { kill(process, SIGKILL) }
        }
    }

    private func processes(in session: pid_t) -> [Int32] {
        ((try? Files.names(inDirectory: "/proc")) ?? []).compactMap { Int32($0) }.filter { process in
            // A process whose session cannot be read has ended, or is another user's.
            getsid(process) == session && process != ProcessInspector.currentProcess && hasMark(process)
        }
    }

    private func hasMark(_ process: Int32) -> Bool {
        let path = "/proc/\(process)/environ"
        guard let bytes = try? Files.contents(of: path, limitBytes: PlatformLimits.environmentBytes) else {
            return false
        }
        return bytes.split(separator: 0).contains { $0.elementsEqual(variable) }
    }
}
