a = "quoted \"twice\"" + 'c' + R"x(raw )" ")x"; // `tick` ```fence``` #hash
// <!-- end --> | table | --- ~~~ :start-after: --8<-- "file.cu"
