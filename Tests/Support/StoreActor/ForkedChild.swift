import CTestKit
import Foundation

/// A child of this process that is forked and starts no program.
enum ForkedChild {
    /// Runs a body in a child.
    ///
    /// - Returns: What it returned there; nil when the child did not end by itself.
    static func run(_ body: () -> String) -> String? {
        let pipe = Pipe()
        let child = test_fork()
        if child == 0 {
            let answer = Array(body().utf8)
            _ = write(pipe.fileHandleForWriting.fileDescriptor, answer, answer.count)
            _exit(0)
        }
        try? pipe.fileHandleForWriting.close()
        let answer = (try? pipe.fileHandleForReading.readToEnd()) ?? Data()
        var status: Int32 = 0
        waitpid(child, &status, 0)
        return status == 0 ? String(decoding: answer, as: UTF8.self) : nil
    }
}
