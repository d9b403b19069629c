/// An impossible state: it stops a debug build, and is an error in a release build.
package struct BrokenInvariant: Error, CustomStringConvertible {
    package let description: String

    package init(_ what: String, file: StaticString = #fileID, line: UInt = #line) {
        description = "\(what) (\(file):\(line)). This is a defect of the library."
        assertionFailure(description)
    }
}
