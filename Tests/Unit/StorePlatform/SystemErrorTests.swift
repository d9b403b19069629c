import Foundation
import StorePlatform
import Testing

@Suite("System errors")
struct SystemErrorTests {
    @Test("a system error names the call, the file, the reason and the number")
    func description() {
        let error = SystemError(call: "open", path: "/x/y", errorNumber: ENOSPC)
        #expect(error.description == "open \"/x/y\": No space left on device (errno 28)")
        #expect(SystemError(call: "pipe", path: nil, errorNumber: EMFILE).description.hasPrefix("pipe: "))
    }

    @Test("system errors are told apart by call, file and number, and classified")
    func classification() {
        let error = SystemError(call: "open", path: "/x", errorNumber: EACCES)
        #expect(error == SystemError(call: "open", path: "/x", errorNumber: EACCES))
        #expect(error != SystemError(call: "open", path: "/y", errorNumber: EACCES))
        #expect(error.isPermission && !error.isNoSpace && !error.isNotFound)
        #expect(SystemError(call: "write", path: nil, errorNumber: EDQUOT).isNoSpace)
        #expect(SystemError(call: "open", path: nil, errorNumber: ENOTDIR).isNotFound)
    }

    @Test("a store error is caught by its code, with and without a cast")
    func codes() {
        let error: any Error = StoreError(.invalidKey, what: "a", why: "b", remedy: "c")
        do {
            throw error
        } catch StoreError.invalidKey {
        } catch {
            Issue.record("not caught by its code: \(error)")
        }
        #expect("\(error)" == "invalidKey: a b c")
        #expect(StoreError.pageDamaged(3).name == "pageDamaged")
    }
}
